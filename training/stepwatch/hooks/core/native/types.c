/* How a timeline and its buckets are made, read and freed. */
#include "core.h"

extern PyMethodDef timeline_methods[];

void free_object(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF((PyObject *)type);
}

PyObject *totals_list(const int64_t *totals)
{
    PyObject *list = PyList_New(BUCKETS);
    for (int bucket = 0; list != NULL && bucket < BUCKETS; bucket++) {
        PyObject *value = PyLong_FromLongLong(totals[bucket]);
        if (value == NULL)
            Py_CLEAR(list);
        else
            PyList_SetItem(list, bucket, value);
    }
    return list;
}

static PyObject *make_buckets(Timeline *timeline)
{
    PyObject *buckets = PyTuple_New(BUCKETS);
    for (int index = 0; buckets != NULL && index < BUCKETS; index++) {
        Bucket *bucket = (Bucket *)PyType_GenericAlloc(bucket_type, 0);
        if (bucket == NULL) {
            Py_CLEAR(buckets);
            break;
        }
        bucket->timeline = (Timeline *)Py_NewRef((PyObject *)timeline);
        bucket->index = (uint8_t)index;
        PyTuple_SetItem(buckets, index, (PyObject *)bucket);
    }
    return buckets;
}

/* Timeline(ring, clock, misuse): the ring's records go through a `Slots` from now on. */
static PyObject *timeline_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords))
{
    PyObject *ring, *clock, *misuse;
    if (!PyArg_ParseTuple(args, "OOO", &ring, &clock, &misuse))
        return NULL;
    PyObject *slots = PyObject_CallMethod(ring, "write_through", "O", (PyObject *)slots_type);
    if (slots == NULL)
        return NULL;
    if (Py_TYPE(slots) != slots_type) {
        Py_DECREF(slots);
        PyErr_SetString(PyExc_TypeError, "the ring did not take the core's slots");
        return NULL;
    }
    Timeline *self = (Timeline *)PyType_GenericAlloc(type, 0);
    if (self == NULL) {
        Py_DECREF(slots);
        return NULL;
    }
    self->slots = (Slots *)slots;
    self->clock = Py_NewRef(clock);
    self->misuse = Py_NewRef(misuse);
    self->marks = Py_NewRef(Py_None);
    self->ended = Py_NewRef(Py_None);
    self->bucket = OTHER;
    self->flags = FLAG_FIRST;
    int64_t now;
    if (read_clock(self, &now) != 0 || (self->buckets = make_buckets(self)) == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    self->since = self->began = now;
    return (PyObject *)self;
}

static int timeline_traverse(PyObject *object, visitproc visit, void *arg)
{
    Timeline *self = (Timeline *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->clock);
    Py_VISIT(self->misuse);
    Py_VISIT(self->buckets);
    Py_VISIT(self->marks);
    Py_VISIT(self->ended);
    return 0;
}

static int timeline_clear(PyObject *object)
{
    Timeline *self = (Timeline *)object;
    Py_CLEAR(self->buckets);
    replace(&self->marks, Py_NewRef(Py_None));
    replace(&self->ended, Py_NewRef(Py_None));
    return 0;
}

static void timeline_dealloc(PyObject *object)
{
    Timeline *self = (Timeline *)object;
    PyObject_GC_UnTrack(object);
    if (self->weak_references != NULL)
        PyObject_ClearWeakRefs(object);
    collectives_clear(self);
    PyMem_Free(self->collectives);
    PyMem_Free(self->stack);
    Py_XDECREF((PyObject *)self->slots);
    Py_XDECREF(self->clock);
    Py_XDECREF(self->misuse);
    Py_XDECREF(self->buckets);
    Py_XDECREF(self->marks);
    Py_XDECREF(self->ended);
    free_object(object);
}

static PyObject *get_bucket(Timeline *self, void *Py_UNUSED(none))
{
    return PyLong_FromLong(self->bucket);
}

static PyObject *get_totals(Timeline *self, void *Py_UNUSED(none))
{
    return totals_list(self->totals);
}

static PyObject *get_stack(Timeline *self, void *Py_UNUSED(none))
{
    PyObject *list = PyList_New(0); /* a garbage collection may enter and leave phases */
    for (Py_ssize_t place = 0; list != NULL && place < self->depth; place++) {
        PyObject *value = PyLong_FromLong(self->stack[place]);
        if (value == NULL || PyList_Append(list, value) != 0)
            Py_CLEAR(list);
        Py_XDECREF(value);
    }
    return list;
}

static PyObject *get_collectives(Timeline *self, void *Py_UNUSED(none))
{
    PyObject *totals = PyDict_New();
    for (Py_ssize_t place = 0; totals != NULL && place < self->operations; place++) {
        CollectiveTotals *value = self->collectives[place];
        Py_INCREF((PyObject *)value); /* a garbage collection may end the step */
        PyObject *key
            = Py_BuildValue("(KL)", (unsigned long long)value->group, (long long)value->op);
        if (key == NULL || PyDict_SetItem(totals, key, (PyObject *)value) != 0)
            Py_CLEAR(totals);
        Py_DECREF((PyObject *)value);
        Py_XDECREF(key);
    }
    return totals;
}

static PyGetSetDef timeline_getset[] = {
    {"bucket", (getter)get_bucket, NULL, "The bucket to which time counts now.", NULL},
    {"totals", (getter)get_totals, NULL, "A copy of the current step's ns by bucket.", NULL},
    {"stack", (getter)get_stack, NULL, "A copy of the buckets that were entered.", NULL},
    {"collectives", (getter)get_collectives, NULL, "A copy: totals by (group, op).", NULL},
    OBJECT("marks", Timeline, marks, "The boundaries on a device, or None."),
    OBJECT("ended", Timeline, ended, "Called at the end of each step, or None."),
    {NULL},
};
static PyMemberDef timeline_members[] = {
    {"since", T_LONGLONG, offsetof(Timeline, since), 0, NULL},
    {"step", T_LONGLONG, offsetof(Timeline, step), 0, NULL},
    {"microbatches", T_LONGLONG, offsetof(Timeline, microbatches), 0, NULL},
    {"flags", T_LONGLONG, offsetof(Timeline, flags), 0, NULL},
    {"entered", T_LONGLONG, offsetof(Timeline, entered), READONLY, NULL},
    {"buckets", T_OBJECT_EX, offsetof(Timeline, buckets), READONLY, NULL},
    {"clock", T_OBJECT_EX, offsetof(Timeline, clock), READONLY, NULL},
    {"misuse", T_OBJECT_EX, offsetof(Timeline, misuse), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Timeline, weak_references), READONLY, NULL},
    {NULL},
};
static PyType_Slot timeline_slots[] = {
    {Py_tp_doc, "Accounts for one rank's time and keeps its live line up to date."},
    {Py_tp_new, timeline_new},
    {Py_tp_dealloc, timeline_dealloc},
    {Py_tp_traverse, timeline_traverse},
    {Py_tp_clear, timeline_clear},
    {Py_tp_methods, timeline_methods},
    {Py_tp_members, timeline_members},
    {Py_tp_getset, timeline_getset},
    {0, NULL},
};
PyType_Spec timeline_spec = {"stepwatch.hooks.core._native.Timeline", sizeof(Timeline), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, timeline_slots};

static PyObject *enter(Bucket *self, PyObject *Py_UNUSED(none))
{
    if (bucket_enter(self->timeline, self->index) != 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *leave(Bucket *self, PyObject *const *Py_UNUSED(args), Py_ssize_t Py_UNUSED(n))
{
    if (bucket_leave(self->timeline) != 0)
        return NULL;
    Py_RETURN_NONE;
}

static int bucket_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT((PyObject *)((Bucket *)object)->timeline);
    return 0;
}

static void bucket_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    Py_XDECREF((PyObject *)((Bucket *)object)->timeline);
    free_object(object);
}

static PyMethodDef bucket_methods[] = {
    {"__enter__", (PyCFunction)enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))leave, METH_FASTCALL, NULL},
    {NULL},
};
static PyType_Slot bucket_slots[] = {
    {Py_tp_doc, "Counts time to one bucket while it is entered: reusable, and at any depth."},
    {Py_tp_dealloc, bucket_dealloc},
    {Py_tp_traverse, bucket_traverse},
    {Py_tp_methods, bucket_methods},
    {0, NULL},
};
PyType_Spec bucket_spec = {"stepwatch.hooks.core._native.Bucket", sizeof(Bucket), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, bucket_slots};

static PyObject *do_nothing(PyObject *Py_UNUSED(self), PyObject *const *Py_UNUSED(args), Py_ssize_t Py_UNUSED(n))
{
    Py_RETURN_NONE;
}

static PyMethodDef nothing_methods[] = {
    {"__enter__", (PyCFunction)(void (*)(void))do_nothing, METH_FASTCALL, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))do_nothing, METH_FASTCALL, NULL},
    {NULL},
};
static PyType_Slot nothing_slots[] = {
    {Py_tp_doc, "Counts nothing while it is entered: for hooks that are off, and other threads."},
    {Py_tp_dealloc, free_object},
    {Py_tp_methods, nothing_methods},
    {0, NULL},
};
PyType_Spec nothing_spec
    = {"stepwatch.hooks.core._native.Nothing", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT, nothing_slots};
