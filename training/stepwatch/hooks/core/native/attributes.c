/* Attributes that C reads without a check: they cannot be deleted, so none is ever NULL. */
#include "core.h"

void replace(PyObject **place, PyObject *value)
{
    PyObject *previous = *place;
    *place = value;
    Py_XDECREF(previous);
}

PyObject *get_object(PyObject *self, void *offset)
{
    PyObject *value = *(PyObject **)((char *)self + (intptr_t)offset);
    return Py_NewRef(value == NULL ? Py_None : value);
}

int set_object(PyObject *self, PyObject *value, void *offset)
{
    if (value == NULL) {
        PyErr_SetString(PyExc_TypeError, "this attribute cannot be deleted");
        return -1;
    }
    replace((PyObject **)((char *)self + (intptr_t)offset), Py_NewRef(value));
    return 0;
}
