// Operations: the host learns the shapes from Meta kernels and returns; the CPU kernel runs on the
// worker of the stream.
#include "operators.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/Operators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include "device.h"
#include "memory.h"
#include "settings.h"
#include "shapes.h"
#include "stream.h"

namespace simulated {

namespace {

using at::Tensor;
using torch::jit::Stack;

// Host tensors are read when the operation is enqueued, as the arguments of a kernel are.
Tensor argument_on_host(const Tensor& tensor) {
  if (!tensor.defined() || on_device(tensor)) return on_host(tensor);
  auto copy = tensor.detach().clone();
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
    copy.unsafeGetTensorImpl()->set_wrapped_number(true);
  return copy;
}

// The CPU kernel bound to its arguments. May run many times: a captured graph keeps it.
struct Call {
  c10::OperatorHandle op;
  Stack arguments;
  std::vector<std::pair<size_t, Tensor>> outputs;  // which result goes where

  void operator()() const {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    Stack stack = arguments;
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
    for (const auto& [index, output] : outputs)
      if (const auto& result = stack[index].toTensor(); result.defined()) output.copy_(result);
  }
};

bool returns_new_or_written_tensors(const c10::FunctionSchema& schema) {
  for (const auto& result : schema.returns()) {
    if (result.type()->kind() != c10::TypeKind::TensorType) return false;
    if (result.alias_info() && !result.alias_info()->isWrite()) return false;
  }
  return true;
}

void run_synchronously(const c10::OperatorHandle& op, Stack* stack, double seconds) {
  current().synchronize();
  at::native::cpu_fallback(op, stack);
  enqueue(seconds, [] {});
}

Stack bind_arguments(const c10::FunctionSchema& schema, const Arguments& arguments) {
  Stack bound;
  for (size_t i = 0; i < arguments.size(); i++) {
    if (schema.arguments()[i].name() != "generator")
      bound.push_back(with_tensors(arguments[i], c10::DeviceType::CPU, argument_on_host));
    else
      bound.push_back(generator_on_host(arguments[i].toOptional<at::Generator>()));
  }
  return bound;
}

// The argument that result `index` is, for in-place and out= forms.
const c10::IValue& aliased(const c10::FunctionSchema& schema, const Arguments& arguments,
                           size_t index) {
  for (size_t i = 0; i < arguments.size(); i++) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (alias && *alias == *schema.returns()[index].alias_info()) return arguments[i];
  }
  TORCH_CHECK(false, "sim: no argument is result ", index, " of ", schema.name());
}

void fallback(const c10::OperatorHandle& op, Stack* stack) {
  const auto& schema = op.schema();
  const auto& name = schema.name();
  const auto seconds = costs().of(name.substr(name.find("::") + 2));
  const auto count = schema.arguments().size();
  const Arguments arguments = torch::jit::last(*stack, count).vec();

  at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::optional<std::vector<Shape>> shapes;
  if (op.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta) &&
      returns_new_or_written_tensors(schema))
    shapes = result_shapes(op, arguments);
  if (!shapes) return run_synchronously(op, stack, seconds);

  Call call{op, bind_arguments(schema, arguments), {}};
  torch::jit::drop(*stack, count);
  for (size_t i = 0; i < schema.returns().size(); i++) {
    const auto& shape = (*shapes)[i];
    if (schema.returns()[i].alias_info()) {
      stack->push_back(aliased(schema, arguments, i));
    } else if (!shape.defined) {
      stack->push_back(Tensor());
    } else {
      auto output = at::empty_strided(shape.sizes, shape.strides,
                                      at::TensorOptions().dtype(shape.dtype).device(the_device()));
      call.outputs.emplace_back(i, on_host(output));
      stack->push_back(output);
    }
  }
  enqueue(seconds, std::move(call));
}

// ---- the operations that make memory, move it, and read it ----

using Dtype = std::optional<at::ScalarType>;
using Layout = std::optional<at::Layout>;
using Device = std::optional<at::Device>;
using Flag = std::optional<bool>;
const c10::DispatchKeySet KEYS(c10::DispatchKey::PrivateUse1);

Tensor empty(at::IntArrayRef sizes, Dtype dtype, Layout, Device, Flag,
             std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(sizes, &device_allocator(), KEYS,
                                   c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, Dtype dtype, Layout, Device,
                     Flag) {
  return at::detail::empty_strided_generic(sizes, strides, &device_allocator(), KEYS,
                                           c10::dtype_or_default(dtype));
}

Tensor copy_from(const Tensor& from, const Tensor& to, bool non_blocking) {
  const auto& host = on_device(from) ? to : from;
  const bool crosses = !on_device(from) || !on_device(to);
  const bool staged = crosses && !is_pinned(host.const_data_ptr());
  auto source = on_device(from) ? on_host(from) : from.detach();
  // From pageable memory the call returns when the bytes lie in a staging buffer.
  if (!on_device(from) && staged && non_blocking) source = source.clone();
  auto target = on_device(to) ? on_host(to) : to.detach();
  enqueue(costs().of("copy_"), [source, target] {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    target.copy_(source);
  });
  const bool to_pageable = staged && !on_device(to);
  if (crosses && (!non_blocking || to_pageable)) current().synchronize();
  return to;
}

const Tensor& resize_in_place(const Tensor& tensor, at::IntArrayRef sizes,
                              std::optional<at::MemoryFormat> format) {
  auto like = at::empty(sizes, tensor.options()
                                   .device(c10::DeviceType::Meta)
                                   .memory_format(format.value_or(at::MemoryFormat::Contiguous)));
  resize_tensor(tensor, sizes, like.strides());
  return tensor;
}

Tensor copy_from_and_resize(const Tensor& from, const Tensor& to) {
  if (from.sizes() != to.sizes()) resize_in_place(to, from.sizes(), std::nullopt);
  return copy_from(from, to, false);
}

at::Scalar read_scalar(const Tensor& tensor) {
  current().synchronize();
  return on_host(tensor).item();
}

Tensor& set_storage_view(Tensor& tensor, at::Storage storage, int64_t offset,
                         at::IntArrayRef sizes, at::IntArrayRef strides) {
  auto* changed = tensor.unsafeGetTensorImpl();
  changed->set_storage_keep_dtype(std::move(storage));
  changed->set_storage_offset(offset);
  if (strides.empty() && !sizes.empty())
    changed->set_sizes_contiguous(sizes);
  else
    changed->set_sizes_and_strides(sizes, strides);
  return tensor;
}

Tensor& set_storage(Tensor& tensor, at::Storage storage) {
  const auto count = static_cast<int64_t>(storage.nbytes() / tensor.itemsize());
  return set_storage_view(tensor, std::move(storage), 0, {count}, {1});
}

Tensor& set_tensor(Tensor& tensor, const Tensor& other) {
  return set_storage_view(tensor, other.storage(), other.storage_offset(), other.sizes(),
                          other.strides());
}

// Queued operations hold their memory, so there is nothing to note.
void record_stream(Tensor&, c10::Stream) {}

// In-place foreach operations and a few others have a composite kernel that wins over a fallback.
std::vector<std::string> shadowed_operations() {
  std::vector<std::string> names = {"aten::native_layer_norm", "aten::native_group_norm",
                                    "aten::convolution", "aten::convolution_backward"};
  for (const auto& op : c10::Dispatcher::singleton().getAllOpNames()) {
    const bool in_place = !op.name.empty() && op.name.back() == '_';
    if (op.name.rfind("aten::_foreach_", 0) != 0 || !in_place) continue;
    names.push_back(op.overload_name.empty() ? op.name : op.name + "." + op.overload_name);
  }
  return names;
}

}  // namespace

void enqueue(double seconds, std::function<void()> work) {
  Task task;
  task.work = std::move(work);
  task.seconds = seconds;
  current().push(std::move(task));
}

Tensor on_host(const Tensor& tensor) {
  if (!on_device(tensor)) return tensor;
  const auto options = tensor.options().device(c10::DeviceType::CPU);
  const auto block = block_of(tensor.storage());
  if (!block) return at::empty_strided(tensor.sizes(), tensor.strides(), options);
  auto* first = block.get() + tensor.storage_offset() * tensor.itemsize();
  return at::from_blob(first, tensor.sizes(), tensor.strides(), [block](void*) {}, options);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("as_strided", at::native::as_strided_tensorimpl);
  library.impl("view", TORCH_FN(at::native::view));
  library.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  library.impl("resize_", resize_in_place);
  library.impl("_copy_from", copy_from);
  library.impl("_copy_from_and_resize", copy_from_and_resize);
  library.impl("_local_scalar_dense", read_scalar);
  library.impl("set_.source_Storage_storage_offset", set_storage_view);
  library.impl("set_.source_Storage", set_storage);
  library.impl("set_.source_Tensor", set_tensor);
  library.impl("record_stream", record_stream);
  for (const auto& name : shadowed_operations())
    library.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {  // the macros want the name `m`
  using namespace at::autocast;
#define LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FLOAT32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
  AT_FORALL_LOWER_PRECISION_FP(LOWER_PRECISION)
  AT_FORALL_FP32(FLOAT32)
}

}  // namespace simulated
