// The process-group backend "simccl": Gloo moves the bytes, the device's clocks say when.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <map>

#include "stream.h"

namespace simulated {

class Work final : public c10d::Work {
 public:
  // `done` is null for a call inside a coalesced group, whose one Work comes at its end.
  Work(int rank, c10d::OpType type, RecordingPtr done, bool host_waits,
       std::vector<at::Tensor> outputs, const Queue& on);
  bool isCompleted() override { return !done_ || done_->passed(); }
  bool isSuccess() const override { return true; }
  bool wait(std::chrono::milliseconds) override;
  void synchronize() override { wait(kNoTimeout); }
  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  const RecordingPtr done_;
  const bool host_waits_;
  const std::vector<at::Tensor> outputs_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

// Collectives of one group run on one communication stream, in the order of their calls. Each flow of
// send and receive (peer and direction) has a stream of its own.
class Backend final : public c10d::Backend {
 public:
  Backend(c10::intrusive_ptr<c10d::Backend> gloo, int rank, int size);

  const std::string getBackendName() const override { return "simccl"; }
  void setTimeout(std::chrono::milliseconds timeout) override { gloo_->setTimeout(timeout); }
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  WorkPtr endCoalescing() override;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return sequence_; }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int peer, int tag) override;
  WorkPtr recv(Tensors& tensors, int peer, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;

 private:
  struct Call {
    c10d::OpType type;
    Tensors outputs;
    double bytes;
    std::function<void()> move;
    bool host_waits = false;
  };
  struct Flow {
    int peer, tag;
    bool sends;
  };

  WorkPtr launch(Call call);
  WorkPtr launch_flow(const Flow& flow, Call call);
  WorkPtr work_of(const Call& call, Queue& on, RecordingPtr done) const;
  void push(Queue& on, std::function<Moment(Moment)> meet);
  Moment meet_group(Moment arrival, double bytes) const;
  Moment meet_peer(const Flow& flow, Moment arrival, double bytes) const;
  Queue& stream_of(const Flow& flow);

  const c10::intrusive_ptr<c10d::Backend> gloo_;
  Queue& stream_;
  Queue& join_;  // says when all flows of a batch are through
  std::map<std::pair<int, bool>, Queue*> flows_;
  uint64_t sequence_ = 0;
  bool coalescing_ = false;
  std::vector<Call> coalesced_;
  std::vector<RecordingPtr> coalesced_flows_;
};

}  // namespace simulated
