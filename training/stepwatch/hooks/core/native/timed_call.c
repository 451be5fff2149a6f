/* A collective that is timed around the object that performs it: `plain/timed_call.py`. */
#include "core.h"

typedef struct {
    PyObject_HEAD
    State *recorder;
    PyObject *groups, *numbers, *attachments, *inner, *owner, *attribute;
    long long op;
    char timed, checks;
} TimedCall;

static int call_init(TimedCall *self, PyObject *args, PyObject *Py_UNUSED(keywords))
{
    PyObject *instruments, *inner, *owner, *attribute;
    long long op;
    int timed;
    if (self->recorder != NULL) {
        PyErr_SetString(PyExc_TypeError, "it is initialised already");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "OOLOUp", &instruments, &inner, &op, &owner, &attribute, &timed))
        return -1;
    PyObject *recorder = PyObject_GetAttrString(instruments, "recorder");
    PyObject *groups = NULL, *numbers = NULL, *attachments = NULL;
    if (recorder == NULL || (groups = PyObject_GetAttrString(instruments, "groups")) == NULL
        || (numbers = PyObject_GetAttrString(groups, "numbers")) == NULL
        || (attachments = PyObject_GetAttrString(recorder, "attachments")) == NULL)
        goto failed;
    if (!PyObject_TypeCheck(recorder, state_type) || !PyDict_Check(numbers)) {
        PyErr_SetString(PyExc_TypeError, "the recorder belongs to another core");
        goto failed;
    }
    self->recorder = (State *)recorder;
    self->groups = groups;
    self->numbers = numbers;
    self->attachments = attachments;
    self->inner = Py_NewRef(inner);
    self->owner = Py_NewRef(owner);
    self->attribute = Py_NewRef(attribute);
    self->op = op;
    self->timed = (char)timed;
    return 0;
failed:
    Py_XDECREF(recorder);
    Py_XDECREF(groups);
    Py_XDECREF(numbers);
    Py_XDECREF(attachments);
    return -1;
}

static int call_traverse(PyObject *object, visitproc visit, void *arg)
{
    TimedCall *self = (TimedCall *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT((PyObject *)self->recorder);
    Py_VISIT(self->groups);
    Py_VISIT(self->numbers);
    Py_VISIT(self->attachments);
    Py_VISIT(self->inner);
    Py_VISIT(self->owner);
    return 0;
}

static void call_dealloc(PyObject *object)
{
    TimedCall *self = (TimedCall *)object;
    PyObject_GC_UnTrack(object);
    PyObject *held[] = {(PyObject *)self->recorder, self->groups, self->numbers, self->attachments,
        self->inner, self->owner, self->attribute};
    for (size_t place = 0; place < sizeof held / sizeof *held; place++)
        Py_XDECREF(held[place]);
    free_object(object);
}

/* A call's argument by its place or its name, borrowed; NULL if it is missing. */
static PyObject *argument(PyObject *args, PyObject *keywords, Py_ssize_t place, PyObject *name)
{
    if (place < PyTuple_Size(args))
        return PyTuple_GetItem(args, place);
    return keywords == NULL ? NULL : PyDict_GetItemWithError(keywords, name);
}

/* Whether the owner has this object, and no other one around it; -1 with an exception set. */
static int is_outermost(TimedCall *self)
{
    PyObject *current = PyObject_GetAttr(self->owner, self->attribute);
    if (current == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError))
            return -1;
        PyErr_Clear();
        return 1;
    }
    Py_DECREF(current);
    return current == (PyObject *)self;
}

/* The group's number as `GroupNumbers.number` has it; -1 with an exception set. */
static int64_t group_number(TimedCall *self, PyObject *group)
{
    PyObject *key = PyLong_FromVoidPtr(group);
    PyObject *number = key == NULL ? NULL : PyDict_GetItemWithError(self->numbers, key);
    Py_XINCREF(number);
    Py_XDECREF(key);
    if (number == NULL && !PyErr_Occurred())
        number = PyObject_CallMethod(self->groups, "number", "(O)", group); /* "O" spreads a tuple */
    int64_t value = number == NULL ? -1 : PyLong_AsLongLong(number);
    Py_XDECREF(number);
    return value;
}

static PyObject *timed(TimedCall *self, Timeline *timeline, PyObject *args, PyObject *keywords)
{
    PyObject *size = PyObject_GetAttr(argument(args, keywords, 1, name_input_tensor), name_nbytes);
    if (size == NULL)
        return NULL;
    uint64_t nbytes = PyLong_AsUnsignedLongLongMask(size);
    Py_DECREF(size);
    if (PyErr_Occurred())
        return NULL;
    int64_t number = group_number(self, argument(args, keywords, 2, name_group)), arrived;
    if ((number < 0 && PyErr_Occurred())
        || collective_enter(timeline, (uint64_t)number, self->op, nbytes, &arrived) != 0)
        return NULL;
    PyObject *result = PyObject_Call(self->inner, args, keywords);
    if (current_timeline(self->recorder) == Py_None) /* a signal handler closed it */
        return result;
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    if (collective_leave(timeline, (uint64_t)number, self->op, nbytes, arrived) != 0) {
        Py_CLEAR(result);
        Py_XDECREF(type);
        Py_XDECREF(error);
        Py_XDECREF(trace);
        return NULL;
    }
    PyErr_Restore(type, error, trace);
    return result;
}

static PyObject *call(TimedCall *self, PyObject *args, PyObject *keywords)
{
    State *recorder = self->recorder;
    if (recorder == NULL) {
        PyErr_SetString(PyExc_TypeError, "it is not initialised");
        return NULL;
    }
    PyObject *timeline = current_timeline(recorder), *thread = recorder->thread;
    if (timeline == Py_None)
        return PyObject_Call(self->inner, args, keywords);
    int plain = Py_TYPE(timeline) == timeline_type && thread != NULL
        && PyObject_TypeCheck(thread, thread_type)
        && ((Thread *)thread)->ident == PyThread_get_thread_ident() && !self->checks && self->timed
        && argument(args, keywords, 1, name_input_tensor) != NULL
        && argument(args, keywords, 2, name_group) != NULL;
    if (plain && (plain = is_outermost(self)) < 0)
        return NULL;
    if (plain) {
        Py_INCREF(timeline);
        PyObject *result = timed(self, (Timeline *)timeline, args, keywords);
        Py_DECREF(timeline);
        return result;
    }
    PyObject *function = PyObject_GetAttrString(plain_call, "__call__"), *result = NULL;
    PyObject *first = Py_BuildValue("(O)", (PyObject *)self), *all = NULL;
    if (function != NULL && first != NULL && (all = PySequence_Concat(first, args)) != NULL)
        result = PyObject_Call(function, all, keywords);
    Py_XDECREF(function);
    Py_XDECREF(first);
    Py_XDECREF(all);
    return result;
}

static PyMemberDef call_members[] = {
    {"_recorder", T_OBJECT, offsetof(TimedCall, recorder), READONLY, NULL},
    {"_groups", T_OBJECT, offsetof(TimedCall, groups), READONLY, NULL},
    {"_attachments", T_OBJECT, offsetof(TimedCall, attachments), READONLY, NULL},
    {"_inner", T_OBJECT, offsetof(TimedCall, inner), READONLY, NULL},
    {"_parameters", T_OBJECT, offsetof(TimedCall, owner), READONLY, NULL},
    {"_attribute", T_OBJECT, offsetof(TimedCall, attribute), READONLY, NULL},
    {"_op", T_LONGLONG, offsetof(TimedCall, op), READONLY, NULL},
    {"_timed", T_BOOL, offsetof(TimedCall, timed), READONLY, NULL},
    {"checks", T_BOOL, offsetof(TimedCall, checks), 0, "Whether `check` gets each input."},
    {NULL},
};
static PyType_Slot call_slots[] = {
    {Py_tp_doc, "Calls an object that performs a collective, and times the call."},
    {Py_tp_init, call_init},
    {Py_tp_call, call},
    {Py_tp_dealloc, call_dealloc},
    {Py_tp_traverse, call_traverse},
    {Py_tp_members, call_members},
    {0, NULL},
};
PyType_Spec timed_call_spec = {"stepwatch.hooks.core._native.TimedCall", sizeof(TimedCall), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, call_slots};
