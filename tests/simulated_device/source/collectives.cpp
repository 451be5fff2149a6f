#include "collectives.h"

#include <ATen/Functions.h>
#include <c10/core/StreamGuard.h>

#include "device.h"
#include "memory.h"
#include "operators.h"
#include "settings.h"

namespace simulated {

namespace {

constexpr int MEETING_TAG = 1 << 20;  // above every tag of a user

// What each rank says about a collective: when its stream reached it, and how long its link needs.
at::Tensor note(Moment arrival, double bytes) {
  const auto& now = settings();
  const auto link = as_duration(now.link_seconds + bytes / now.bytes_per_second);
  return at::tensor({int64_t{arrival.time_since_epoch().count()}, int64_t{link.count()}}, at::kLong);
}

// The last to arrive starts it, the slowest link ends it.
Moment end_of(const at::Tensor& note) {
  const auto* values = note.const_data_ptr<int64_t>();
  return Moment(Clock::duration(values[0] + values[1]));
}

Tensors all_on_host(const Tensors& tensors) {
  Tensors result;
  for (const auto& tensor : tensors) result.push_back(on_host(tensor));
  return result;
}

std::vector<Tensors> all_on_host(const std::vector<Tensors>& lists) {
  std::vector<Tensors> result;
  for (const auto& list : lists) result.push_back(all_on_host(list));
  return result;
}

double bytes_of(const Tensors& tensors) {
  double bytes = 0;
  for (const auto& tensor : tensors) bytes += static_cast<double>(tensor.nbytes());
  return bytes;
}

// Gloo has no mean: sum, then divide.
template <class Options>
bool replace_mean(Options& options) {
  if (options.reduceOp != c10d::ReduceOp::AVG) return false;
  options.reduceOp = c10d::ReduceOp::SUM;
  return true;
}

}  // namespace

Work::Work(int rank, c10d::OpType type, RecordingPtr done, bool host_waits,
           std::vector<at::Tensor> outputs, const Queue& on)
    : c10d::Work(rank, type),
      done_(std::move(done)),
      host_waits_(host_waits),
      outputs_(std::move(outputs)) {
  future_ = c10::make_intrusive<c10::ivalue::Future>(
      c10::ListType::create(c10::TensorType::get()), std::vector<c10::Device>{the_device()});
  // Complete at once, with an event on the communication stream: whoever waits makes its own stream
  // wait for that event.
  c10::StreamGuard communication(as_stream(on.id));
  future_->markCompleted(c10::IValue(outputs_));
}

bool Work::wait(std::chrono::milliseconds) {
  if (!done_) return true;
  current().wait_for(done_);
  if (host_waits_) {
    done_->wait_on_host();
    raise_asynchronous_error();
  }
  return true;
}

Backend::Backend(c10::intrusive_ptr<c10d::Backend> gloo, int rank, int size)
    : c10d::Backend(rank, size),
      gloo_(std::move(gloo)),
      stream_(new_queue(true)),
      join_(new_queue(true)) {}

Moment Backend::meet_group(Moment arrival, double bytes) const {
  Tensors latest = {note(arrival, bytes)};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MAX;
  gloo_->allreduce(latest, options)->wait();
  return end_of(latest[0]);
}

Moment Backend::meet_peer(const Flow& flow, Moment arrival, double bytes) const {
  const bool upwards = flow.sends == (getRank() < flow.peer);
  const int tag = MEETING_TAG + 2 * flow.tag + upwards;
  Tensors mine = {note(arrival, bytes)}, theirs = {at::empty_like(mine[0])};
  auto sent = gloo_->send(mine, flow.peer, tag);
  gloo_->recv(theirs, flow.peer, tag)->wait();
  sent->wait();
  return end_of(at::maximum(mine[0], theirs[0]));
}

Queue& Backend::stream_of(const Flow& flow) {
  auto& found = flows_[{flow.peer, flow.sends}];
  if (!found) found = &new_queue(true);
  return *found;
}

void Backend::push(Queue& on, std::function<Moment(Moment)> meet) {
  sequence_++;
  on.wait_for(current().record());
  Task task;
  task.meet = std::move(meet);
  on.push(std::move(task));
}

WorkPtr Backend::work_of(const Call& call, Queue& on, RecordingPtr done) const {
  return c10::make_intrusive<Work>(getRank(), call.type, std::move(done), call.host_waits,
                                   call.outputs, on);
}

WorkPtr Backend::launch(Call call) {
  if (coalescing_) {
    coalesced_.push_back(std::move(call));
    return work_of({coalesced_.back().type, {}, 0, nullptr}, stream_, nullptr);
  }
  // `self` lives until the last call has run.
  auto self = c10::intrusive_ptr<Backend>::reclaim_copy(this);
  push(stream_, [self, bytes = call.bytes, move = call.move](Moment arrival) {
    const auto end = self->meet_group(arrival, bytes);
    move();
    return end;
  });
  return work_of(call, stream_, stream_.record());
}

WorkPtr Backend::launch_flow(const Flow& flow, Call call) {
  auto self = c10::intrusive_ptr<Backend>::reclaim_copy(this);
  auto& stream = stream_of(flow);
  push(stream, [self, flow, bytes = call.bytes, move = call.move](Moment arrival) {
    const auto end = self->meet_peer(flow, arrival, bytes);
    move();
    return end;
  });
  auto done = stream.record();
  if (coalescing_) {
    coalesced_flows_.push_back(done);
    done = nullptr;
  }
  return work_of(call, stream, done);
}

void Backend::startCoalescing() { coalescing_ = true; }

WorkPtr Backend::endCoalescing() {
  coalescing_ = false;
  Call all{c10d::OpType::COALESCED, {}, 0, nullptr};
  const auto calls = std::exchange(coalesced_, {});
  for (const auto& call : calls) {
    all.bytes += call.bytes;
    all.outputs.insert(all.outputs.end(), call.outputs.begin(), call.outputs.end());
  }
  all.move = [calls] {
    for (const auto& call : calls) call.move();
  };
  const auto flows = std::exchange(coalesced_flows_, {});
  if (flows.empty()) return launch(std::move(all));
  TORCH_CHECK(calls.empty(), "simccl: collectives and send or receive in one coalesced group");
  for (const auto& flow : flows) join_.wait_for(flow);
  return work_of(all, join_, join_.record());
}

WorkPtr Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  auto changed = options;
  const bool mean = replace_mean(changed);
  return launch({c10d::OpType::ALLREDUCE, tensors, 2 * bytes_of(tensors),
                 [gloo = gloo_, host = all_on_host(tensors), changed, mean, size = getSize()]() mutable {
                   gloo->allreduce(host, changed)->wait();
                   if (mean)
                     for (auto& tensor : host) tensor.div_(size);
                 }});
}

WorkPtr Backend::allreduce_coalesced(Tensors& tensors,
                                     const c10d::AllreduceCoalescedOptions& options) {
  startCoalescing();
  for (auto& tensor : tensors) {
    Tensors one = {tensor};
    allreduce(one, options);
  }
  return endCoalescing();
}

WorkPtr Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  return launch({c10d::OpType::BROADCAST, tensors, bytes_of(tensors),
                 [gloo = gloo_, host = all_on_host(tensors), options]() mutable {
                   gloo->broadcast(host, options)->wait();
                 }});
}

WorkPtr Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  return launch({c10d::OpType::REDUCE, tensors, bytes_of(tensors),
                 [gloo = gloo_, host = all_on_host(tensors), options]() mutable {
                   gloo->reduce(host, options)->wait();
                 }});
}

WorkPtr Backend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                           const c10d::AllgatherOptions& options) {
  return launch({c10d::OpType::ALLGATHER, outputs.at(0), bytes_of(outputs.at(0)),
                 [gloo = gloo_, to = all_on_host(outputs), from = all_on_host(inputs),
                  options]() mutable { gloo->allgather(to, from, options)->wait(); }});
}

WorkPtr Backend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                 const c10d::AllgatherOptions& options) {
  return launch({c10d::OpType::_ALLGATHER_BASE, {output}, static_cast<double>(output.nbytes()),
                 [gloo = gloo_, to = on_host(output), from = on_host(input), options]() mutable {
                   auto input = from.clone();  // FSDP2 gives a view of the output
                   gloo->_allgather_base(to, input, options)->wait();
                 }});
}

WorkPtr Backend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                 const c10d::AllgatherOptions& options) {
  startCoalescing();
  for (size_t i = 0; i < outputs.size(); i++) _allgather_base(outputs[i], inputs.at(i), options);
  return endCoalescing();
}

WorkPtr Backend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                const c10d::ReduceScatterOptions& options) {
  auto flat = at::cat(inputs.at(0));
  return _reduce_scatter_base(outputs.at(0), flat, options);
}

WorkPtr Backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                      const c10d::ReduceScatterOptions& options) {
  auto changed = options;
  const bool mean = replace_mean(changed);
  return launch({c10d::OpType::_REDUCE_SCATTER_BASE, {output}, static_cast<double>(input.nbytes()),
                 [gloo = gloo_, to = on_host(output), from = on_host(input), changed, mean,
                  size = getSize()]() mutable {
                   gloo->_reduce_scatter_base(to, from, changed)->wait();
                   if (mean) to.div_(size);
                 }});
}

WorkPtr Backend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                 const c10d::ReduceScatterOptions& options) {
  startCoalescing();
  for (size_t i = 0; i < outputs.size(); i++)
    _reduce_scatter_base(outputs[i], inputs.at(i), options);
  return endCoalescing();
}

WorkPtr Backend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                        const c10d::GatherOptions& options) {
  return launch({c10d::OpType::GATHER, outputs.empty() ? Tensors{} : outputs[0], bytes_of(inputs),
                 [gloo = gloo_, to = all_on_host(outputs), from = all_on_host(inputs),
                  options]() mutable { gloo->gather(to, from, options)->wait(); }});
}

WorkPtr Backend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ScatterOptions& options) {
  return launch({c10d::OpType::SCATTER, outputs, bytes_of(outputs),
                 [gloo = gloo_, to = all_on_host(outputs), from = all_on_host(inputs),
                  options]() mutable { gloo->scatter(to, from, options)->wait(); }});
}

WorkPtr Backend::alltoall_base(at::Tensor& output, at::Tensor& input,
                               std::vector<int64_t>& output_splits,
                               std::vector<int64_t>& input_splits,
                               const c10d::AllToAllOptions& options) {
  return launch({c10d::OpType::ALLTOALL_BASE, {output}, static_cast<double>(input.nbytes()),
                 [gloo = gloo_, to = on_host(output), from = on_host(input), output_splits,
                  input_splits, options]() mutable {
                   gloo->alltoall_base(to, from, output_splits, input_splits, options)->wait();
                 }});
}

WorkPtr Backend::alltoall(Tensors& outputs, Tensors& inputs,
                          const c10d::AllToAllOptions& options) {
  return launch({c10d::OpType::ALLTOALL, outputs, bytes_of(inputs),
                 [gloo = gloo_, to = all_on_host(outputs), from = all_on_host(inputs),
                  options]() mutable {
                   std::vector<int64_t> received, sent;
                   Tensors flat;
                   for (const auto& tensor : to) received.push_back(tensor.numel());
                   for (const auto& tensor : from) {
                     sent.push_back(tensor.numel());
                     flat.push_back(tensor.reshape(-1));
                   }
                   auto input = at::cat(flat);
                   auto output = at::empty(c10::sum_integers(received), input.options());
                   const auto parts = output.split_with_sizes(received);
                   gloo->alltoall_base(output, input, received, sent, options)->wait();  // eats both
                   for (size_t i = 0; i < to.size(); i++) to[i].copy_(parts[i].view_as(to[i]));
                 }});
}

WorkPtr Backend::send(Tensors& tensors, int peer, int tag) {
  return launch_flow({peer, tag, true},
                     {c10d::OpType::SEND, tensors, bytes_of(tensors),
                      [gloo = gloo_, host = all_on_host(tensors), peer, tag]() mutable {
                        gloo->send(host, peer, tag)->wait();
                      }});
}

WorkPtr Backend::recv(Tensors& tensors, int peer, int tag) {
  return launch_flow({peer, tag, false},
                     {c10d::OpType::RECV, tensors, bytes_of(tensors),
                      [gloo = gloo_, host = all_on_host(tensors), peer, tag]() mutable {
                        gloo->recv(host, peer, tag)->wait();
                      }});
}

// The host waits, as with NCCL.
WorkPtr Backend::barrier(const c10d::BarrierOptions&) {
  return launch({c10d::OpType::BARRIER, {}, 0, [] {}, true});
}

}  // namespace simulated
