/* Boundaries on a device's stream: `plain/event_marks.py`. Every event is the device's own object. */
#include "core.h"

static int set_last(PyObject *list, PyObject *value)
{
    Py_ssize_t last = PyList_Size(list) - 1;
    return last < 0 ? (PyErr_SetString(PyExc_IndexError, "list assignment index out of range"), -1)
                    : PyList_SetItem(list, last, Py_NewRef(value));
}

static int append_number(PyObject *list, int64_t number)
{
    PyObject *value = PyLong_FromLongLong(number);
    int failed = value == NULL ? -1 : PyList_Append(list, value);
    Py_XDECREF(value);
    return failed;
}

/* The last event of a list, taken from it; NULL without an exception if it is empty. */
static PyObject *take(PyObject *list)
{
    Py_ssize_t size = PyList_Size(list);
    if (size <= 0)
        return NULL;
    PyObject *event = Py_NewRef(PyList_GetItem(list, size - 1));
    if (PyList_SetSlice(list, size - 1, size, NULL) != 0)
        Py_CLEAR(event);
    return event;
}

/* Whether the call returns something true; -1 with an exception set. */
static int answer(PyObject *result)
{
    int truth = result == NULL ? -1 : PyObject_IsTrue(result);
    Py_XDECREF(result);
    return truth;
}

/* Report a device that no longer answers; any other exception passes. */
static int device_failed(EventMarks *marks)
{
    if (!PyErr_ExceptionMatches(failures))
        return -1;
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    PyObject *result = PyObject_CallMethod((PyObject *)marks, "_fail", "O", error);
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(trace);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

/* After the host was blocked, the device may just have reached the newest boundary. */
static int ask(EventMarks *marks, int64_t now)
{
    Py_ssize_t size = PyList_Size(marks->moments);
    if (size <= 0)
        return (int)size;
    int64_t moment = PyLong_AsLongLong(PyList_GetItem(marks->moments, size - 1));
    if (moment == -1 && PyErr_Occurred())
        return -1;
    if (now - moment <= ASKED_AFTER_NS)
        return 0;
    PyObject *event = PyList_GetItem(marks->events, PyList_Size(marks->events) - 1);
    if (event == NULL)
        return -1;
    Py_INCREF(event);
    int passed = answer(PyObject_CallMethod(event, "query", NULL));
    if (passed > 0) {
        int64_t seen;
        PyObject *result = read_moment(marks->clock, &seen) != 0
            ? NULL
            : PyObject_CallMethod(marks->passed_ns, "setdefault", "OL", event, (long long)seen);
        passed = result == NULL ? -1 : 0;
        Py_XDECREF(result);
    }
    Py_DECREF(event);
    return passed;
}

/* Enqueue an event; NULL with `*failed` set, or if there is none to enqueue. */
static PyObject *enqueue(EventMarks *marks, int64_t now, int *failed)
{
    *failed = -1;
    if (marks->captures) {
        int captures = answer(PyObject_CallNoArgs(marks->is_capturing));
        if (captures != 0) {
            marks->flags |= captures > 0 ? FLAG_CAPTURED : 0;
            *failed = captures > 0 ? 0 : -1;
            return NULL;
        }
    }
    PyObject *event = take(marks->free);
    if (event == NULL) {
        if (PyErr_Occurred() || (event = PyObject_CallNoArgs(marks->make)) == NULL)
            return NULL;
        if (event == Py_None) {
            marks->flags |= FLAG_INCOMPLETE;
            *failed = 0;
            Py_DECREF(event);
            return NULL;
        }
    }
    PyObject *stream = Py_NewRef(marks->stream); /* the call may replace it */
    PyObject *result = PyObject_CallMethodObjArgs(event, name_record, stream, NULL);
    Py_DECREF(stream);
    Py_XDECREF(result);
    if (result == NULL || ask(marks, now) != 0) {
        Py_DECREF(event);
        return NULL;
    }
    *failed = 0;
    return event;
}

/* Count the stream's time to `bucket` from `now` on; 1 if that is recorded, -1 on an exception. */
int marks_mark(EventMarks *marks, int64_t now, int64_t bucket, PyObject *key)
{
    if (marks->stream == NULL || marks->stream == Py_None)
        return 0;
    if (now < marks->merged_until) {
        marks->merged_until = 0;
        PyObject *value = PyLong_FromLongLong(bucket);
        int failed = value == NULL || set_last(marks->buckets, value) != 0
            || set_last(marks->keys, key) != 0;
        Py_XDECREF(value);
        return failed ? -1 : 1;
    }
    if (!marks->active)
        return 0;
    int failed;
    PyObject *event = enqueue(marks, now, &failed);
    if (event == NULL)
        return failed ? device_failed(marks) : 0;
    failed = append_number(marks->moments, now) != 0 || append_number(marks->buckets, bucket) != 0
        || PyList_Append(marks->keys, key) != 0 || PyList_Append(marks->events, event) != 0;
    Py_DECREF(event);
    return failed ? -1 : 1;
}

int marks_back_to(EventMarks *marks, int64_t now, int64_t bucket)
{
    if (bucket == OTHER)
        bucket = marks->inferred;
    if (now < marks->merged_until) { /* it left an inner bucket just before */
        PyObject *value = PyLong_FromLongLong(bucket);
        int failed = value == NULL || set_last(marks->buckets, value) != 0
            || set_last(marks->keys, Py_None) != 0;
        Py_XDECREF(value);
        return failed ? -1 : 0;
    }
    int marked = marks_mark(marks, now, bucket, Py_None);
    if (marked > 0) {
        int64_t after;
        if (read_moment(marks->clock, &after) != 0)
            return -1;
        marks->merged_until = after + MERGED_NS;
    }
    return marked < 0 ? -1 : 0;
}

static int add_count(PyObject *counts, PyObject *key)
{
    PyObject *count = PyDict_GetItemWithError(counts, key);
    if (count == NULL && PyErr_Occurred())
        return -1;
    int64_t calls = count == NULL ? 0 : PyLong_AsLongLong(count);
    if (calls == -1 && PyErr_Occurred())
        return -1;
    PyObject *more = PyLong_FromLongLong(calls + 1);
    int failed = more == NULL ? -1 : PyDict_SetItem(counts, key, more);
    Py_XDECREF(more);
    return failed;
}

int marks_enter_collective(EventMarks *marks, int64_t now, PyObject *key)
{
    if (!marks->active || marks->stream == NULL || marks->stream == Py_None)
        return 0;
    PyObject *stream = PyObject_CallNoArgs(marks->stream_key);
    int differs = stream == NULL ? -1 : PyObject_RichCompareBool(stream, marks->key, Py_NE);
    Py_XDECREF(stream);
    if (differs != 0)
        return differs > 0 ? 0 : device_failed(marks);
    if (add_count(marks->counts, key) != 0)
        return -1;
    if (marks->stride > 1 && marks->turn % marks->stride) {
        marks->flags |= FLAG_INCOMPLETE;
        return 0;
    }
    marks->in_collective = 1;
    return marks_mark(marks, now, COLLECTIVE, key) < 0 ? -1 : 0;
}

int marks_leave_collective(EventMarks *marks, int64_t now, int64_t bucket)
{
    if (!marks->in_collective)
        return 0;
    marks->in_collective = 0;
    return marks_back_to(marks, now, bucket);
}
