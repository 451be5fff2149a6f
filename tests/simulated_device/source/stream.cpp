#include "stream.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <atomic>
#include <cmath>
#include <stdexcept>
#include <thread>
#include <utility>

#include "settings.h"

namespace simulated {

namespace {

constexpr auto RUN_AHEAD = std::chrono::milliseconds(1);
constexpr auto HANG_POLL = std::chrono::milliseconds(5);

std::mutex error_lock;
std::string first_error;

std::atomic<bool> forked{false};

std::mutex queues_lock;
// Leaked: workers outlive static destructors.
std::deque<Queue*>& queues() {
  static auto* all = new std::deque<Queue*>{new Queue(0, false)};
  return *all;
}
thread_local int64_t current_queue = 0;

}  // namespace

Clock::duration as_duration(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

void keep_asynchronous_error(const std::string& text) {
  std::lock_guard<std::mutex> hold(error_lock);
  // One line: torch adds a backtrace.
  if (first_error.empty()) first_error = text.substr(0, text.find('\n'));
}

void raise_asynchronous_error() {
  std::lock_guard<std::mutex> hold(error_lock);
  if (!first_error.empty())
    throw std::runtime_error("sim: asynchronous error: " + std::exchange(first_error, {}));
}

bool in_bad_fork() { return forked; }

void require_alive() {
  if (forked) throw std::runtime_error("sim: the device cannot be used in a forked process");
  if (settings().lost != 0) throw std::runtime_error("sim: the device is lost");
}

void Recording::pass(Moment at) {
  {
    std::lock_guard<std::mutex> hold(lock_);
    passed_ = true;
    at_ = at;
  }
  changed_.notify_all();
}

void Recording::wait() {
  std::unique_lock<std::mutex> hold(lock_);
  // A lost device passes nothing any more, and nobody tells: look again now and then.
  while (!changed_.wait_for(hold, std::chrono::milliseconds(50), [&] { return passed_; }))
    require_alive();
}

void Recording::wait_on_host() {
  std::unique_lock<std::mutex> hold(lock_);
  while (!changed_.wait_for(hold, std::chrono::milliseconds(50), [&] { return passed_; })) {
    require_alive();
    raise_asynchronous_error();
  }
}

bool Recording::passed() {
  std::lock_guard<std::mutex> hold(lock_);
  return passed_;
}

Moment Recording::moment() {
  std::lock_guard<std::mutex> hold(lock_);
  return at_;
}

Queue::Queue(int64_t id, bool communicates) : id(id), communicates_(communicates) {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { forked = true; });
  if (registered != 0) throw std::runtime_error("sim: forks cannot be watched");
  std::thread([this] { run(); }).detach();
}

void Queue::push(Task task) {
  if (forked) require_alive();  // launches on a lost device do not raise, as on a GPU
  std::unique_lock<std::mutex> hold(lock_);
  if (capture_) {
    capture_->push_back(std::move(task));
    return;
  }
  if (task.work) {
    auto room = [&] { return settings().depth <= 0 || tasks_.size() < settings().depth; };
    while (!left_.wait_for(hold, std::chrono::milliseconds(50), room)) {
      require_alive();
      raise_asynchronous_error();
    }
  }
  task.enqueued = Clock::now();
  tasks_.push_back(std::move(task));
  hold.unlock();
  arrived_.notify_one();
}

void Queue::wait_for(RecordingPtr other) {
  Task task;
  task.wait_for = std::move(other);
  push(std::move(task));
}

RecordingPtr Queue::record() {
  require_alive();
  if (capture_) throw std::runtime_error("sim: event recorded while the stream is captured");
  Task task;
  task.record = std::make_shared<Recording>();
  auto recording = task.record;
  push(std::move(task));
  return recording;
}

void Queue::synchronize() {
  if (capture_) throw std::runtime_error("sim: synchronisation while the stream is captured");
  record()->wait_on_host();
  raise_asynchronous_error();
}

bool Queue::idle() {
  require_alive();
  std::lock_guard<std::mutex> hold(lock_);
  return tasks_.empty() && !busy_;
}

void Queue::begin_capture() {
  if (capture_) throw std::runtime_error("sim: the stream is captured already");
  capture_ = std::make_shared<Tasks>();
}

std::shared_ptr<Tasks> Queue::end_capture() {
  if (!capture_) throw std::runtime_error("sim: the stream is not captured");
  return std::exchange(capture_, nullptr);
}

void Queue::run() {
  prctl(PR_SET_TIMERSLACK, 1000);  // nanoseconds; 50 us by default
  for (;;) {
    Task task;
    {
      std::unique_lock<std::mutex> hold(lock_);
      busy_ = false;
      arrived_.wait(hold, [&] { return !tasks_.empty(); });
      busy_ = true;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    left_.notify_one();
    try {
      execute(task);
    } catch (const std::exception& error) {
      keep_asynchronous_error(error.what());
      // A collective whose peer is gone ends nowhere, and nothing goes on with what it left behind.
      if (communicates_) return;
      if (task.record) task.record->pass(clock_);
    }
  }
}

void Queue::execute(Task& task) {
  clock_ = std::max(clock_, task.enqueued);
  if (task.wait_for) {
    task.wait_for->wait();
    clock_ = std::max(clock_, task.wait_for->moment());
  }
  if (task.work || task.meet) hold_while_hung();
  if (task.work) compute(task);
  if (task.meet) clock_ = std::max(clock_, task.meet(clock_));
  if (!task.record) return;
  sleep_until(clock_);
  task.record->pass(clock_);
}

void Queue::compute(Task& task) {
  const auto begin = Clock::now();
  // The time passes even where the operation fails.
  const bool stated = !std::isnan(task.seconds);
  if (stated) clock_ += as_duration(task.seconds * settings().slow);
  task.work();
  if (!stated) clock_ += Clock::now() - begin;
  // Short operations run ahead of the clock a little, so that not each of them needs a sleep. An
  // event never does: `execute` sleeps until the clock has reached it.
  sleep_until(clock_ - RUN_AHEAD);
}

void Queue::sleep_until(Moment moment) {
  if (moment > Clock::now()) std::this_thread::sleep_until(moment);
}

void Queue::hold_while_hung() {
  const auto mine = static_cast<double>(communicates_ ? Hang::collective : Hang::kernel);
  if (settings().hang != mine) return;
  while (settings().hang == mine) std::this_thread::sleep_for(HANG_POLL);
  clock_ = std::max(clock_, Clock::now());
}

Queue& new_queue(bool communicates) {
  std::lock_guard<std::mutex> hold(queues_lock);
  auto& all = queues();
  all.push_back(new Queue(static_cast<int64_t>(all.size()), communicates));
  return *all.back();
}

Queue& queue(int64_t id) {
  std::lock_guard<std::mutex> hold(queues_lock);
  return *queues().at(static_cast<size_t>(id));
}

std::vector<Queue*> all_queues() {
  std::lock_guard<std::mutex> hold(queues_lock);
  return {queues().begin(), queues().end()};
}

int64_t current_id() { return current_queue; }
void set_current(int64_t id) { current_queue = id; }

}  // namespace simulated
