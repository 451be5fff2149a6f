#include <torch/csrc/utils/pybind.h>

#include <chrono>

#include "collectives.h"
#include "device.h"
#include "memory.h"
#include "operators.h"
#include "settings.h"
#include "stream.h"

namespace simulated {

// Operations captured on a stream and replayed as one launch.
class Graph {
 public:
  void begin() { current().begin_capture(); }
  void end() { tasks_ = current().end_capture(); }
  void replay() const {
    TORCH_CHECK(tasks_, "sim: the graph was not captured");
    double seconds = 0;
    for (const auto& task : *tasks_) seconds += task.seconds;
    enqueue(seconds, [tasks = tasks_] {
      for (const auto& task : *tasks)
        if (task.work) task.work();
    });
  }

 private:
  std::shared_ptr<Tasks> tasks_;
};

// About what an operator of torch and a driver keep the host for. The hooks take two changes of phase
// within a few microseconds for one: at a tenth of this, whole kernels would come between them.
constexpr std::chrono::microseconds kLaunch{10};

void launch(double seconds) {
  const auto until = std::chrono::steady_clock::now() + kLaunch;
  enqueue(seconds, [] {});
  while (std::chrono::steady_clock::now() < until) {
  }
}

}  // namespace simulated

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  using namespace simulated;
  register_device();
  using free_gil = py::call_guard<py::gil_scoped_release>;
  module.def("attach", &attach);
  module.def("set_costs", [](std::map<std::string, double> seconds) { costs().set(seconds); });
  module.def("take_counts", [] { return costs().take_counts(); });
  module.def("kernel", [](double seconds) { launch(seconds); }, free_gil());
  module.def("bytes_allocated", &bytes_allocated);
  module.def("default_generator", [] { return default_generator(); });
  module.def("in_bad_fork", &in_bad_fork);
  module.def("is_capturing", [] { return current().capturing(); });
  module.def("idle", [] {
    for (auto* each : all_queues())
      if (!each->idle()) return false;
    return true;
  });
  py::class_<Graph>(module, "Graph")
      .def(py::init<>())
      .def("begin", &Graph::begin)
      .def("end", &Graph::end)
      .def("replay", &Graph::replay, free_gil());
  py::class_<Backend, c10d::Backend, c10::intrusive_ptr<Backend>>(module, "Backend")
      .def(py::init([](c10::intrusive_ptr<c10d::Backend> gloo, int rank, int size) {
             return c10::make_intrusive<Backend>(std::move(gloo), rank, size);
           }),
           free_gil());
}
