/* The timeline's face for Python: the methods and attributes of `plain/timeline.py`. */
#include "core.h"

#define METHOD(name) static PyObject *name(Timeline *self, PyObject *const *args, Py_ssize_t count_)

/* Read whole numbers: `least` to `most` of them, what is left out is 0. */
int read_numbers(
    PyObject *const *args, Py_ssize_t given, Py_ssize_t least, Py_ssize_t most, long long *numbers)
{
    if (given < least || given > most) {
        PyErr_Format(PyExc_TypeError, "expected %zd to %zd numbers, got %zd", least, most, given);
        return -1;
    }
    for (Py_ssize_t place = 0; place < most; place++) {
        numbers[place] = 0;
        if (place < given) {
            numbers[place] = (long long)PyLong_AsUnsignedLongLongMask(args[place]);
            if (numbers[place] == -1 && PyErr_Occurred())
                return -1;
        }
    }
    return 0;
}

static int is_bucket(long long bucket)
{
    if (bucket >= 0 && bucket < BUCKETS)
        return 1;
    PyErr_SetString(PyExc_IndexError, "tuple index out of range");
    return 0;
}

METHOD(timeline_begin)
{
    int64_t now;
    if (read_clock(self, &now) != 0)
        return NULL;
    self->since = self->began = now;
    memset(self->totals, 0, sizeof self->totals);
    if (self->marks == Py_None)
        Py_RETURN_NONE;
    return PyObject_CallMethod(self->marks, "begin", "Li", (long long)now, (int)self->bucket);
}

METHOD(timeline_detach)
{
    self->detached = 1;
    if (self->marks != Py_None && PyObject_SetAttrString(self->marks, "active", Py_False) != 0)
        return NULL;
    Py_RETURN_NONE;
}

METHOD(timeline_enter)
{
    long long bucket;
    if (read_numbers(args, count_, 1, 1, &bucket) != 0 || !is_bucket(bucket)
        || bucket_enter(self, (uint8_t)bucket) != 0)
        return NULL;
    return PyLong_FromLongLong(self->since);
}

METHOD(timeline_leave)
{
    return bucket_leave(self) != 0 ? NULL : PyLong_FromLongLong(self->since);
}

METHOD(timeline_enter_microbatch)
{
    long long numbers[2];
    if (read_numbers(args, count_, 2, 2, numbers) != 0 || !is_bucket(numbers[0])
        || bucket_enter(self, (uint8_t)numbers[0]) != 0)
        return NULL;
    uint64_t *words = self->slots->words;
    if (words != NULL)
        store(self, LIVE_LINE + 1, words[LIVE_LINE + 1] | (uint64_t)(numbers[1] & 0xFFFF) << 32);
    return PyLong_FromLongLong(self->since);
}

METHOD(timeline_arrive)
{
    long long numbers[3];
    int64_t now;
    if (read_numbers(args, count_, 2, 3, numbers) != 0
        || arrive(self, numbers[0], numbers[1], numbers[2], &now) != 0)
        return NULL;
    return PyLong_FromLongLong(now);
}

METHOD(timeline_step_outside)
{
    long long entered;
    if (read_numbers(args, count_, 1, 1, &entered) != 0)
        return NULL;
    if (self->entered == entered)
        step_outside(self);
    Py_RETURN_NONE;
}

METHOD(timeline_depart)
{
    long long numbers[5];
    if (read_numbers(args, count_, 5, 5, numbers) != 0
        || collective_add(self, numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]) != 0)
        return NULL;
    Py_RETURN_NONE;
}

METHOD(timeline_enter_collective)
{
    long long numbers[3];
    int64_t now;
    if (read_numbers(args, count_, 2, 3, numbers) != 0
        || collective_enter(self, numbers[0], numbers[1], numbers[2], &now) != 0)
        return NULL;
    return PyLong_FromLongLong(now);
}

METHOD(timeline_leave_collective)
{
    long long numbers[4];
    if (read_numbers(args, count_, 4, 4, numbers) != 0
        || collective_leave(self, numbers[0], numbers[1], numbers[2], numbers[3]) != 0)
        return NULL;
    Py_RETURN_NONE;
}

METHOD(timeline_enter_wait)
{
    long long numbers[2];
    int64_t now;
    if (read_numbers(args, count_, 2, 2, numbers) != 0 || read_clock(self, &now) != 0
        || count_to(self, COLLECTIVE, now) != 0
        || (self->marks != Py_None
            && mark_collective(self, now, numbers[0], numbers[1]) != 0))
        return NULL;
    Py_RETURN_NONE;
}

METHOD(timeline_leave_wait)
{
    int64_t now;
    if (leave_blocked(self, &now) != 0 || mark_left(self) != 0)
        return NULL;
    Py_RETURN_NONE;
}

METHOD(timeline_move_to_collective)
{
    long long numbers[2];
    int64_t now;
    if (read_numbers(args, count_, 2, 2, numbers) != 0 || !is_bucket(numbers[0])
        || read_clock(self, &now) != 0)
        return NULL;
    count(self, now);
    int64_t *source = self->totals + numbers[0];
    int64_t spent = numbers[1] < *source ? numbers[1] : *source;
    *source -= spent;
    self->totals[COLLECTIVE] += spent;
    Py_RETURN_NONE;
}

METHOD(timeline_move)
{
    long long numbers[3];
    if (read_numbers(args, count_, 3, 3, numbers) != 0 || !is_bucket(numbers[0])
        || !is_bucket(numbers[1]))
        return NULL;
    self->totals[numbers[0]] -= numbers[2];
    self->totals[numbers[1]] += numbers[2];
    Py_RETURN_NONE;
}

METHOD(timeline_end_step)
{
    int64_t now, duration, totals[BUCKETS];
    if (step_end(self, &now, &duration, totals) != 0)
        return NULL;
    PyObject *list = totals_list(totals);
    return list == NULL ? NULL
                        : Py_BuildValue("(LLN)", (long long)now, (long long)duration, list);
}

METHOD(timeline_write_collectives)
{
    long long now;
    if (read_numbers(args, count_, 1, 1, &now) != 0 || collectives_write(self, now) != 0)
        return NULL;
    Py_RETURN_NONE;
}

METHOD(timeline_insert_outer)
{
    long long numbers[2];
    if (read_numbers(args, count_, 2, 2, numbers) != 0 || !is_bucket(numbers[1]))
        return NULL;
    /* A place as `list.insert` has it. */
    long long place = numbers[0] < 0 ? numbers[0] + self->depth : numbers[0];
    place = place < 0 ? 0 : place > self->depth ? self->depth : place;
    int64_t since = self->since;
    if (count_to(self, self->bucket, since) != 0) /* one place more, and no time */
        return NULL;
    memmove(self->stack + place + 1, self->stack + place, self->depth - 1 - place);
    self->stack[place] = (uint8_t)numbers[1];
    Py_RETURN_NONE;
}

METHOD(timeline_remove_outer)
{
    long long numbers[2];
    if (read_numbers(args, count_, 2, 2, numbers) != 0)
        return NULL;
    Py_ssize_t place = numbers[0];
    if (place < 0 || place >= self->depth || self->stack[place] != numbers[1])
        Py_RETURN_FALSE;
    memmove(self->stack + place, self->stack + place + 1, self->depth - 1 - place);
    self->depth--;
    Py_RETURN_TRUE;
}

METHOD(timeline_totals_of)
{
    long long numbers[2];
    if (read_numbers(args, count_, 2, 2, numbers) != 0)
        return NULL;
    PyObject *totals = (PyObject *)collective_find(self, numbers[0], numbers[1]);
    return Py_NewRef(totals == NULL ? Py_None : totals);
}

#define FAST(name) {#name, (PyCFunction)(void (*)(void))timeline_##name, METH_FASTCALL, NULL}
PyMethodDef timeline_methods[] = {
    FAST(begin), FAST(detach), FAST(enter), FAST(leave), FAST(enter_microbatch), FAST(arrive),
    FAST(step_outside), FAST(depart), FAST(enter_collective), FAST(leave_collective),
    FAST(enter_wait), FAST(leave_wait), FAST(move_to_collective), FAST(move), FAST(end_step),
    FAST(write_collectives), FAST(insert_outer), FAST(remove_outer), FAST(totals_of), {NULL}};
