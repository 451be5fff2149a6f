// The shapes of an operation's results, from torch's Meta kernels.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <optional>
#include <vector>

namespace simulated {

struct Shape {
  bool defined;
  std::vector<int64_t> sizes, strides;
  at::ScalarType dtype;
};

using Arguments = std::vector<c10::IValue>;

bool on_device(const at::Tensor& tensor);
// The value with `change` applied to each tensor in it and with its device replaced.
c10::IValue with_tensors(const c10::IValue& value, c10::DeviceType device,
                         const std::function<at::Tensor(const at::Tensor&)>& change);
// Null where shapes depend on values, or no Meta kernel knows them: such an operation waits for the
// device. Resizes arguments that the operation resizes (out=).
std::optional<std::vector<Shape>> result_shapes(const c10::OperatorHandle& op,
                                                const Arguments& arguments);
// Sets sizes and strides and enlarges the storage where it is too small.
void resize_tensor(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides);

}  // namespace simulated
