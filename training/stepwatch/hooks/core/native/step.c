/* A step as the trainer marks it: `plain/step.py`, whose functions do what is rare. */
#include "core.h"

static PyObject *step_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords))
{
    PyObject *steps;
    if (!PyArg_ParseTuple(args, "O", &steps))
        return NULL;
    Step *self = (Step *)PyType_GenericAlloc(type, 0);
    if (self == NULL)
        return NULL;
    self->steps = Py_NewRef(steps);
    self->loss = Py_NewRef(unknown_float);
    self->grad_norm = Py_NewRef(unknown_float);
    self->tokens = PyLong_FromLong(0);
    PyObject *instruments = NULL, *phases = NULL, *pauses = NULL;
    if (self->tokens == NULL || (instruments = PyObject_GetAttrString(steps, "instruments")) == NULL
        || (phases = PyObject_GetAttrString(steps, "phases")) == NULL
        || (self->recorder = (State *)PyObject_GetAttrString(steps, "recorder")) == NULL
        || (self->guard = PyObject_GetAttrString(steps, "guard")) == NULL
        || (self->by_name = PyObject_GetAttrString(phases, "by_name")) == NULL
        || (pauses = PyObject_GetAttrString(instruments, "pauses")) == NULL
        || (self->evaluation = PyObject_GetAttrString(pauses, "evaluation")) == NULL
        || (self->numerics = PyObject_GetAttrString(instruments, "numerics")) == NULL
        || (self->late = PyObject_GetAttrString(instruments, "late")) == NULL
        || (self->metrics = PyObject_GetAttrString(instruments, "metrics")) == NULL
        || (self->checkpoints = PyObject_GetAttrString(instruments, "checkpoints")) == NULL
        || (self->profiles = PyObject_GetAttrString(instruments, "profiles")) == NULL)
        goto failed;
    if (!PyObject_TypeCheck((PyObject *)self->recorder, state_type)
        || !PyDict_Check(self->by_name)) {
        PyErr_SetString(PyExc_TypeError, "the recorder belongs to another core");
        goto failed;
    }
    Py_DECREF(instruments);
    Py_DECREF(phases);
    Py_DECREF(pauses);
    return (PyObject *)self;
failed:
    Py_XDECREF(instruments);
    Py_XDECREF(phases);
    Py_XDECREF(pauses);
    Py_DECREF(self);
    return NULL;
}

static int step_traverse(PyObject *object, visitproc visit, void *arg)
{
    Step *self = (Step *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT((PyObject *)self->recorder);
    Py_VISIT(self->steps);
    Py_VISIT(self->by_name);
    Py_VISIT(self->evaluation);
    Py_VISIT(self->numerics);
    Py_VISIT(self->late);
    Py_VISIT(self->metrics);
    Py_VISIT(self->checkpoints);
    Py_VISIT(self->profiles);
    return 0;
}

static void step_dealloc(PyObject *object)
{
    Step *self = (Step *)object;
    PyObject_GC_UnTrack(object);
    Py_XDECREF((PyObject *)self->recorder);
    PyObject *held[] = {self->steps, self->guard, self->by_name, self->evaluation, self->numerics,
        self->late, self->metrics, self->checkpoints, self->profiles, self->loss, self->grad_norm,
        self->tokens};
    for (size_t place = 0; place < sizeof held / sizeof *held; place++)
        Py_XDECREF(held[place]);
    free_object(object);
}

static PyObject *step_enter(Step *self, PyObject *Py_UNUSED(none))
{
    State *recorder = self->recorder;
    int watches = current_timeline(recorder) != Py_None && recorder->began
        && recorder->drain_completions == Py_None;
    int pending = watches ? is_true(self->evaluation, name_pending) : 0;
    if (pending < 0)
        return NULL;
    int plain = watches ? !pending : recorder->ring == Py_None;
    if (self->inside || !plain || recorder->thread == NULL
        || !PyObject_TypeCheck(recorder->thread, thread_type))
        return PyObject_CallMethod(plain_step, "__enter__", "O", (PyObject *)self);
    self->inside = 1;
    ((Thread *)recorder->thread)->ident = PyThread_get_thread_ident();
    return Py_NewRef((PyObject *)self);
}

static PyObject *step_exit(Step *self, PyObject *const *args, Py_ssize_t count)
{
    if (end_step(self, count > 1 && args[1] != Py_None ? FLAG_UNFINISHED : 0) != 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *step_leave(Step *self, PyObject *flags)
{
    long long bits = PyLong_AsLongLong(flags);
    if ((bits == -1 && PyErr_Occurred()) || end_step(self, bits) != 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *step_phase(Step *self, PyObject *name)
{
    PyObject *context = PyDict_GetItemWithError(self->by_name, name);
    if (context != NULL)
        return Py_NewRef(context);
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_TypeError)
        && !PyErr_ExceptionMatches(PyExc_KeyError))
        return NULL;
    PyErr_Clear();
    return PyObject_CallMethod(plain_step, "phase", "OO", (PyObject *)self, name);
}

/* Whether `value` is a number that a record holds as it is: None is, and changes nothing. */
static int is_number(PyObject *value)
{
    if (value == Py_None)
        return 1;
    double number = PyFloat_CheckExact(value) ? PyFloat_AsDouble(value) : 1e39;
    return -1e38 < number && number < 1e38;
}

static PyObject *step_record(
    Step *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (current_timeline(self->recorder) == Py_None)
        Py_RETURN_NONE;
    Py_ssize_t named = names == NULL ? 0 : PyTuple_Size(names);
    PyObject *loss = Py_None, *grad_norm = Py_None, *metrics = NULL;
    int plain = count == 0;
    for (Py_ssize_t place = 0; plain && place < named; place++) {
        PyObject *name = PyTuple_GetItem(names, place);
        if (name == name_loss || PyUnicode_CompareWithASCIIString(name, "loss") == 0)
            plain = is_number(loss = args[place]);
        else if (PyUnicode_CompareWithASCIIString(name, "grad_norm") == 0)
            plain = is_number(grad_norm = args[place]);
        else
            plain = PyUnicode_CompareWithASCIIString(name, "grad_norm_share") != 0
                && (metrics != NULL || (metrics = PyDict_New()) != NULL)
                && PyDict_SetItem(metrics, name, args[place]) == 0;
    }
    if (plain) {
        if (loss != Py_None)
            replace(&self->loss, Py_NewRef(loss));
        if (grad_norm != Py_None)
            replace(&self->grad_norm, Py_NewRef(grad_norm));
        if (metrics == NULL)
            Py_RETURN_NONE;
        PyObject *done = PyObject_CallMethodObjArgs(self->metrics, name_record, metrics, NULL);
        Py_DECREF(metrics);
        Py_XDECREF(done);
        if (done == NULL)
            return NULL;
        Py_RETURN_NONE;
    }
    Py_XDECREF(metrics);
    if (PyErr_Occurred())
        return NULL;
    PyObject *record = PyObject_GetAttrString(plain_step, "record");
    PyObject *unnamed = PyTuple_New(count + 1), *numbers = PyDict_New(), *result = NULL;
    if (record == NULL || unnamed == NULL || numbers == NULL)
        goto out;
    PyTuple_SetItem(unnamed, 0, Py_NewRef((PyObject *)self));
    for (Py_ssize_t place = 0; place < count; place++)
        PyTuple_SetItem(unnamed, place + 1, Py_NewRef(args[place]));
    for (Py_ssize_t place = 0; place < named; place++)
        if (PyDict_SetItem(numbers, PyTuple_GetItem(names, place), args[count + place]) != 0)
            goto out;
    result = PyObject_Call(record, unnamed, numbers);
out:
    Py_XDECREF(record);
    Py_XDECREF(unnamed);
    Py_XDECREF(numbers);
    return result;
}

static PyMethodDef step_methods[] = {
    {"__enter__", (PyCFunction)step_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))step_exit, METH_FASTCALL, NULL},
    {"leave", (PyCFunction)step_leave, METH_O, "End the step with bits from `StepFlag`."},
    {"phase", (PyCFunction)step_phase, METH_O, "Return a context manager around a phase."},
    {"record", (PyCFunction)(void (*)(void))step_record, METH_FASTCALL | METH_KEYWORDS,
        "Note numbers for this step: floats or one-element tensors, never synchronised here."},
    {NULL},
};
static PyMemberDef step_members[] = {
    {"_recorder", T_OBJECT, offsetof(Step, recorder), READONLY, NULL},
    {"_steps", T_OBJECT, offsetof(Step, steps), READONLY, NULL},
    {"_by_name", T_OBJECT, offsetof(Step, by_name), READONLY, NULL},
    {"_evaluation", T_OBJECT, offsetof(Step, evaluation), READONLY, NULL},
    {"_inside", T_BOOL, offsetof(Step, inside), 0, NULL},
    {"inside", T_BOOL, offsetof(Step, inside), READONLY, "Whether a step is active."},
    {NULL},
};
static PyGetSetDef step_getset[] = {
    OBJECT("_loss", Step, loss, NULL),
    OBJECT("_grad_norm", Step, grad_norm, NULL),
    OBJECT("tokens", Step, tokens, "This rank's tokens in the step."),
    {NULL},
};
static PyType_Slot step_slots[] = {
    {Py_tp_doc, "One step; reused for every step."},
    {Py_tp_new, step_new},
    {Py_tp_dealloc, step_dealloc},
    {Py_tp_traverse, step_traverse},
    {Py_tp_methods, step_methods},
    {Py_tp_members, step_members},
    {Py_tp_getset, step_getset},
    {0, NULL},
};
PyType_Spec step_spec = {"stepwatch.hooks.core._native.Step", sizeof(Step), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, step_slots};
