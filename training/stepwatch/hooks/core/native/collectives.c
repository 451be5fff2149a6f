/* The current step's collectives: totals by group and operation, and their records. */
#include "core.h"

CollectiveTotals *collective_find(Timeline *timeline, uint64_t group, int64_t op)
{
    for (Py_ssize_t place = timeline->operations; place-- > 0;) {
        CollectiveTotals *totals = timeline->collectives[place];
        if (totals->group == group && totals->op == op)
            return totals;
    }
    return NULL;
}

static CollectiveTotals *first_call(Timeline *timeline, uint64_t group, int64_t op, int64_t arrived)
{
    if (timeline->operations == timeline->operations_room) {
        Py_ssize_t room = timeline->operations_room * 2 + 8;
        CollectiveTotals **grown
            = PyMem_Realloc(timeline->collectives, room * sizeof *timeline->collectives);
        if (grown == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
        timeline->collectives = grown;
        timeline->operations_room = room;
    }
    CollectiveTotals *totals = (CollectiveTotals *)PyType_GenericAlloc(totals_type, 0);
    if (totals != NULL) {
        totals->group = group;
        totals->op = op;
        totals->first_arrival_ns = arrived;
        timeline->collectives[timeline->operations++] = totals;
    }
    return totals;
}

/* A collective that arrived at `arrived` has ended at `now`. */
int collective_add(
    Timeline *timeline, uint64_t group, int64_t op, uint64_t nbytes, int64_t arrived, int64_t now)
{
    CollectiveTotals *totals = collective_find(timeline, group, op);
    if (totals == NULL && (totals = first_call(timeline, group, op, arrived)) == NULL)
        return -1;
    int64_t spent = now - arrived;
    totals->count++;
    totals->nbytes = nbytes > UINT64_MAX - totals->nbytes ? UINT64_MAX : totals->nbytes + nbytes;
    totals->exposed_ns += spent;
    if (spent > totals->longest_ns)
        totals->longest_ns = spent;
    return 0;
}

void collectives_clear(Timeline *timeline)
{
    while (timeline->operations > 0)
        Py_DECREF((PyObject *)timeline->collectives[--timeline->operations]);
}

/* Write a record for each, in the order of their first calls. Each number of a record has its
   place: one that does not fit goes through `struct`, which refuses it as in the plain core. */
int collectives_write(Timeline *timeline, int64_t now)
{
    for (Py_ssize_t place = 0; place < timeline->operations; place++) {
        CollectiveTotals *totals = timeline->collectives[place];
        int fits = timeline->step >= 0 && timeline->step <= 0xFFFFFFFFLL && now >= 0
            && totals->group <= 0xFFFFFFFF && totals->op >= 0 && totals->op <= 0xFFFF
            && totals->count <= 0xFFFFFFFF && totals->exposed_ns >= 0 && totals->longest_ns >= 0
            && totals->first_arrival_ns >= 0;
        if (fits) {
            unsigned char slot[SLOT_BYTES], *end = put_head(slot, KIND_COLLECTIVE, timeline->step, now);
            end = put(put(put(end, totals->group, 4), (uint64_t)totals->op, 2), totals->count, 4);
            end = put(put(end, totals->nbytes, 8), (uint64_t)totals->exposed_ns, 8);
            put(put(end, (uint64_t)totals->longest_ns, 8), (uint64_t)totals->first_arrival_ns, 8);
            if (append_packed(timeline->slots, slot) != 0)
                return -1;
            continue;
        }
        PyObject *record = Py_BuildValue("(LLKLKKLLL)", timeline->step, (long long)now,
            (unsigned long long)totals->group, (long long)totals->op, totals->count, totals->nbytes,
            totals->exposed_ns, totals->longest_ns, totals->first_arrival_ns);
        int failed = record == NULL ? -1 : append_record(timeline->slots, KIND_COLLECTIVE, record);
        Py_XDECREF(record);
        if (failed)
            return -1;
    }
    collectives_clear(timeline);
    return 0;
}

static PyMemberDef totals_members[] = {
    {"count", T_ULONGLONG, offsetof(CollectiveTotals, count), 0, NULL},
    {"nbytes", T_ULONGLONG, offsetof(CollectiveTotals, nbytes), 0, NULL},
    {"exposed_ns", T_LONGLONG, offsetof(CollectiveTotals, exposed_ns), 0, NULL},
    {"longest_ns", T_LONGLONG, offsetof(CollectiveTotals, longest_ns), 0, NULL},
    {"first_arrival_ns", T_LONGLONG, offsetof(CollectiveTotals, first_arrival_ns), 0, NULL},
    {NULL},
};
static PyType_Slot totals_slots[] = {
    {Py_tp_doc, "All collectives with one operation in one group since the last step ended."},
    {Py_tp_dealloc, free_object},
    {Py_tp_members, totals_members},
    {0, NULL},
};
PyType_Spec totals_spec = {"stepwatch.hooks.core._native.CollectiveTotals",
    sizeof(CollectiveTotals), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    totals_slots};
