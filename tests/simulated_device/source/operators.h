#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace simulated {

// Puts work on the current stream. `seconds`: stated device time; NaN: as long as `work` takes.
void enqueue(double seconds, std::function<void()> work);
// A CPU tensor over the same memory, which it keeps alive. Read or write it on a worker only.
at::Tensor on_host(const at::Tensor& tensor);

}  // namespace simulated
