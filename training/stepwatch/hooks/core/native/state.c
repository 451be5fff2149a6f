/* What a step reads of the recorder and of its thread: the base classes of `Recorder` and
   `TrainingThread`. */
#include "core.h"

static int state_traverse(PyObject *object, visitproc visit, void *arg)
{
    State *self = (State *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->ring);
    Py_VISIT(self->timeline);
    Py_VISIT(self->thread);
    Py_VISIT(self->drain_completions);
    return 0;
}

static PyObject *state_new(PyTypeObject *type, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(keywords))
{
    State *self = (State *)PyType_GenericAlloc(type, 0);
    if (self != NULL) {
        self->ring = Py_NewRef(Py_None);
        self->timeline = Py_NewRef(Py_None);
        self->thread = Py_NewRef(Py_None);
        self->drain_completions = Py_NewRef(Py_None);
    }
    return (PyObject *)self;
}

static int state_clear(PyObject *object)
{
    State *self = (State *)object;
    Py_CLEAR(self->ring);
    Py_CLEAR(self->timeline);
    Py_CLEAR(self->thread);
    Py_CLEAR(self->drain_completions);
    return 0;
}

static void state_dealloc(PyObject *object)
{
    State *self = (State *)object;
    PyObject_GC_UnTrack(object);
    Py_XDECREF(self->ring);
    Py_XDECREF(self->timeline);
    Py_XDECREF(self->thread);
    Py_XDECREF(self->drain_completions);
    free_object(object);
}

static PyMemberDef state_members[] = {
    {"ring", T_OBJECT, offsetof(State, ring), 0, NULL},
    {"timeline", T_OBJECT, offsetof(State, timeline), 0, NULL},
    {"thread", T_OBJECT, offsetof(State, thread), 0, NULL},
    {"drain_completions", T_OBJECT, offsetof(State, drain_completions), 0, NULL},
    {"step_number", T_LONGLONG, offsetof(State, step_number), 0, NULL},
    {"began", T_BOOL, offsetof(State, began), 0, NULL},
    {NULL},
};
static PyType_Slot state_slots[] = {
    {Py_tp_doc, "What a step reads of the recorder."},
    {Py_tp_new, state_new},
    {Py_tp_dealloc, state_dealloc},
    {Py_tp_traverse, state_traverse},
    {Py_tp_clear, state_clear},
    {Py_tp_members, state_members},
    {0, NULL},
};
PyType_Spec state_spec = {"stepwatch.hooks.core._native.State", sizeof(State), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, state_slots};

static PyMemberDef thread_members[] = {
    {"ident", T_ULONG, offsetof(Thread, ident), 0, NULL},
    {NULL},
};
static PyType_Slot thread_slots[] = {
    {Py_tp_doc, "A thread's number."},
    {Py_tp_dealloc, free_object},
    {Py_tp_members, thread_members},
    {0, NULL},
};
PyType_Spec thread_spec = {"stepwatch.hooks.core._native.Thread", sizeof(Thread), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, thread_slots};
