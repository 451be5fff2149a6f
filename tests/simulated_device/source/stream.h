// Streams, the events recorded on them, and captured graphs. No torch in here.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace simulated {

// CLOCK_MONOTONIC: the same in every process of the machine, and Python's time.monotonic_ns().
using Clock = std::chrono::steady_clock;
using Moment = Clock::time_point;

Clock::duration as_duration(double seconds);

// One record of an event. A second record of the same event makes a new one, so that whoever waits
// for the first goes on waiting for the first.
class Recording {
 public:
  void pass(Moment at);
  // Of a worker; and of a host, which is told of asynchronous errors while it waits.
  void wait();
  void wait_on_host();
  bool passed();
  Moment moment();

 private:
  std::mutex lock_;
  std::condition_variable changed_;
  bool passed_ = false;
  Moment at_{};
};
using RecordingPtr = std::shared_ptr<Recording>;

struct Task {
  std::function<void()> work;           // computes on the worker; may run many times (graphs)
  double seconds = 0;                   // stated time; NaN: as long as `work` takes
  std::function<Moment(Moment)> meet;   // a collective: from its start to its end
  RecordingPtr record, wait_for;
  Moment enqueued{};
};
using Tasks = std::vector<Task>;

// A stream: a queue, a worker thread, and the device's own clock. The clock moves by stated times,
// not by what the worker takes, so a busy machine does not make the device slow.
class Queue {
 public:
  explicit Queue(int64_t id, bool communicates);
  const int64_t id;

  void push(Task task);
  void wait_for(RecordingPtr other);
  RecordingPtr record();
  void synchronize();
  bool idle();

  void begin_capture();
  std::shared_ptr<Tasks> end_capture();
  bool capturing() const { return capture_ != nullptr; }

 private:
  void run();
  void execute(Task& task);
  void compute(Task& task);
  void hold_while_hung();
  void sleep_until(Moment moment);

  const bool communicates_;
  std::mutex lock_;
  std::condition_variable arrived_, left_;
  std::deque<Task> tasks_;
  bool busy_ = false;
  Moment clock_{};
  std::shared_ptr<Tasks> capture_;
};

// Streams live as long as the process, as torch's pools do.
Queue& new_queue(bool communicates);
Queue& queue(int64_t id);
std::vector<Queue*> all_queues();
int64_t current_id();
void set_current(int64_t id);
inline Queue& current() { return queue(current_id()); }

// Throws what a queued operation threw first, once; then the error is gone.
void raise_asynchronous_error();
void keep_asynchronous_error(const std::string& text);
// Throws if the device is lost, or if its workers stayed in the parent of a fork.
void require_alive();
bool in_bad_fork();

}  // namespace simulated
