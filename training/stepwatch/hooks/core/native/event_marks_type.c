/* The marks' face for Python: the base class of `DeviceMarks`. */
#include "core.h"

static PyObject *marks_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords))
{
    EventMarks *self = (EventMarks *)PyType_GenericAlloc(type, 0);
    if (self == NULL)
        return NULL;
    PyObject **held[] = {&self->stream, &self->key, &self->is_capturing, &self->stream_key,
        &self->make, &self->clock};
    for (size_t place = 0; place < sizeof held / sizeof *held; place++)
        *held[place] = Py_NewRef(Py_None);
    PyObject **lists[] = {&self->events, &self->moments, &self->buckets, &self->keys, &self->free};
    for (size_t place = 0; place < sizeof lists / sizeof *lists; place++)
        if ((*lists[place] = PyList_New(0)) == NULL)
            goto failed;
    if ((self->counts = PyDict_New()) != NULL && (self->passed_ns = PyDict_New()) != NULL)
        return (PyObject *)self;
failed:
    Py_DECREF(self);
    return NULL;
}

static int marks_init(EventMarks *self, PyObject *args, PyObject *Py_UNUSED(keywords))
{
    PyObject *backend, *free, *make, *clock;
    if (!PyArg_ParseTuple(args, "OO!OO", &backend, &PyList_Type, &free, &make, &clock))
        return -1;
    PyObject *capturing = PyObject_GetAttrString(backend, "is_capturing");
    PyObject *key = capturing == NULL ? NULL : PyObject_GetAttrString(backend, "stream_key");
    if (key == Py_None) {
        Py_DECREF(key);
        key = PyObject_GetAttrString(backend, "current_stream");
    }
    if (key == NULL) {
        Py_XDECREF(capturing);
        return -1;
    }
    self->captures = capturing != Py_None;
    if (!self->captures) {
        Py_DECREF(capturing);
        capturing = Py_NewRef(never);
    }
    replace(&self->is_capturing, capturing);
    replace(&self->stream_key, key);
    replace(&self->free, Py_NewRef(free));
    replace(&self->make, Py_NewRef(make));
    replace(&self->clock, Py_NewRef(clock));
    self->active = 1;
    self->inferred = OTHER;
    self->stride = 1;
    return 0;
}

static int marks_traverse(PyObject *object, visitproc visit, void *arg)
{
    EventMarks *self = (EventMarks *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->stream);
    Py_VISIT(self->key);
    Py_VISIT(self->is_capturing);
    Py_VISIT(self->stream_key);
    Py_VISIT(self->make);
    Py_VISIT(self->clock);
    Py_VISIT(self->events);
    Py_VISIT(self->free);
    Py_VISIT(self->counts);
    Py_VISIT(self->passed_ns);
    return 0;
}

/* C calls these without a check, so a cycle is broken with None. */
static int marks_clear(PyObject *object)
{
    EventMarks *self = (EventMarks *)object;
    PyObject **held[] = {&self->stream, &self->key, &self->is_capturing, &self->stream_key,
        &self->make, &self->clock};
    for (size_t place = 0; place < sizeof held / sizeof *held; place++)
        replace(held[place], Py_NewRef(Py_None));
    return 0;
}

static void marks_dealloc(PyObject *object)
{
    EventMarks *self = (EventMarks *)object;
    PyObject_GC_UnTrack(object);
    PyObject *held[] = {self->stream, self->key, self->is_capturing, self->stream_key, self->make,
        self->clock, self->events, self->moments, self->buckets, self->keys, self->free,
        self->counts, self->passed_ns};
    for (size_t place = 0; place < sizeof held / sizeof *held; place++)
        Py_XDECREF(held[place]);
    free_object(object);
}

static PyObject *mark(EventMarks *self, PyObject *const *args, Py_ssize_t count)
{
    long long numbers[2];
    if (read_numbers(args, count > 2 ? 2 : count, 2, 2, numbers) != 0)
        return NULL;
    int marked = marks_mark(self, numbers[0], numbers[1], count > 2 ? args[2] : Py_None);
    return marked < 0 ? NULL : PyBool_FromLong(marked);
}

static PyObject *back_to(EventMarks *self, PyObject *const *args, Py_ssize_t count)
{
    long long numbers[2];
    if (read_numbers(args, count, 2, 2, numbers) != 0
        || marks_back_to(self, numbers[0], numbers[1]) != 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *enter_collective(EventMarks *self, PyObject *const *args, Py_ssize_t count)
{
    long long now;
    if (read_numbers(args, count > 1 ? 1 : 0, 1, 1, &now) != 0
        || marks_enter_collective(self, now, args[1]) != 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *leave_collective(EventMarks *self, PyObject *const *args, Py_ssize_t count)
{
    long long numbers[2];
    if (read_numbers(args, count, 2, 2, numbers) != 0
        || marks_leave_collective(self, numbers[0], numbers[1]) != 0)
        return NULL;
    Py_RETURN_NONE;
}

#define FAST(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}
static PyMethodDef marks_methods[]
    = {FAST(mark), FAST(back_to), FAST(enter_collective), FAST(leave_collective), {NULL}};
#define NUMBER(name, field) {name, T_LONGLONG, offsetof(EventMarks, field), 0, NULL}

/* A list or dict that the C code reads without a check: another type is refused. */
static int set_checked(EventMarks *self, PyObject *value, void *closure)
{
    Py_ssize_t offset = (Py_ssize_t)(intptr_t)closure;
    int is_dict = offset == offsetof(EventMarks, counts) || offset == offsetof(EventMarks, passed_ns);
    if (value == NULL || !(is_dict ? PyDict_Check(value) : PyList_Check(value))) {
        PyErr_SetString(PyExc_TypeError, is_dict ? "it is a dict" : "it is a list");
        return -1;
    }
    return set_object((PyObject *)self, value, closure);
}

#define CHECKED(name, field) \
    {name, get_object, (setter)set_checked, NULL, (void *)offsetof(EventMarks, field)}
static PyGetSetDef marks_getset[] = {CHECKED("_events", events), CHECKED("_moments", moments),
    CHECKED("_buckets", buckets), CHECKED("_keys", keys), CHECKED("_free", free),
    CHECKED("_counts", counts), CHECKED("passed_ns", passed_ns),
    OBJECT("stream", EventMarks, stream, NULL), OBJECT("_key", EventMarks, key, NULL),
    OBJECT("is_capturing", EventMarks, is_capturing, NULL),
    OBJECT("_stream_key", EventMarks, stream_key, NULL), OBJECT("_make", EventMarks, make, NULL),
    OBJECT("clock", EventMarks, clock, NULL), {NULL}};
static PyMemberDef marks_members[] = {NUMBER("inferred", inferred),
    NUMBER("_merged_until", merged_until), NUMBER("_flags", flags), NUMBER("_stride", stride),
    NUMBER("_turn", turn), {"active", T_BOOL, offsetof(EventMarks, active), 0, NULL},
    {"_captures", T_BOOL, offsetof(EventMarks, captures), 0, NULL},
    {"_in_collective", T_BOOL, offsetof(EventMarks, in_collective), 0, NULL}, {NULL}};
static PyType_Slot marks_slots[] = {
    {Py_tp_doc, "Records events at the boundaries of a step."},
    {Py_tp_new, marks_new},
    {Py_tp_init, marks_init},
    {Py_tp_dealloc, marks_dealloc},
    {Py_tp_traverse, marks_traverse},
    {Py_tp_clear, marks_clear},
    {Py_tp_methods, marks_methods},
    {Py_tp_members, marks_members},
    {Py_tp_getset, marks_getset},
    {0, NULL},
};
PyType_Spec marks_spec = {"stepwatch.hooks.core._native.EventMarks", sizeof(EventMarks), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, marks_slots};
