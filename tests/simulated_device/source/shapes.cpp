#include "shapes.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/core/stack.h>

#include <mutex>
#include <string>
#include <unordered_map>

#include "memory.h"

namespace simulated {

namespace {

// Meta kernels written in Python cost up to a millisecond of host time, so results are kept by
// operation, argument shapes and values.
class Cache {
 public:
  std::optional<std::vector<Shape>> find(const std::string& key) {
    std::lock_guard<std::mutex> hold(lock_);
    auto found = kept_.find(key);
    return found == kept_.end() ? std::nullopt : std::optional(found->second);
  }
  void keep(const std::string& key, const std::vector<Shape>& shapes) {
    std::lock_guard<std::mutex> hold(lock_);
    if (kept_.size() >= 8192) kept_.clear();
    kept_[key] = shapes;
  }

 private:
  std::mutex lock_;
  std::unordered_map<std::string, std::vector<Shape>> kept_;
};

Cache& cache() {
  static auto* all = new Cache;
  return *all;
}

class Key {
 public:
  explicit Key(const c10::OperatorHandle& op)
      : text(op.schema().name() + '.' + op.schema().overload_name()) {}
  std::string text;

  // False where a value cannot be part of a key.
  bool add(const c10::IValue& value) {
    if (value.isNone()) return number('n', 0);
    if (value.isTensor()) return tensor(value.toTensor());
    if (value.isInt()) return number('i', value.toInt());
    if (value.isBool()) return number('b', value.toBool());
    if (value.isDouble()) return number('d', value.toDouble());
    if (value.isDevice()) return number('v', 0);
    if (value.isIntList()) return numbers(value.toIntVector());
    if (value.isString()) return letters(value.toStringRef());
    if (value.isTensorList() || value.isList()) return list(value);
    return false;
  }

 private:
  template <class Number>
  bool number(char kind, Number value) {
    text += kind;
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
    return true;
  }
  bool numbers(at::IntArrayRef values) {
    number('[', values.size());
    for (auto value : values) number('i', value);
    return true;
  }
  bool letters(const std::string& value) {
    number('s', value.size());
    text += value;
    return true;
  }
  bool tensor(const at::Tensor& value) {
    if (!value.defined()) return number('u', 0);
    number('t', static_cast<int>(value.scalar_type()));
    number(on_device(value) ? 'x' : 'h', value.unsafeGetTensorImpl()->is_wrapped_number());
    return numbers(value.sizes()) && numbers(value.strides());
  }
  bool list(const c10::IValue& value) {
    const auto items = value.toListRef();
    number('l', items.size());
    for (const auto& item : items)
      if (!add(item)) return false;
    return true;
  }
};

at::Tensor meta_of(const at::Tensor& tensor) {
  if (!on_device(tensor)) return tensor;
  return at::empty_strided(tensor.sizes(), tensor.strides(),
                           tensor.options().device(c10::DeviceType::Meta));
}

Shape shape_of(const c10::IValue& value) {
  const auto& tensor = value.toTensor();
  if (!tensor.defined()) return {false, {}, {}, at::kFloat};
  return {true, tensor.sizes().vec(), tensor.strides().vec(), tensor.scalar_type()};
}

std::vector<at::Tensor> tensors_in(const c10::IValue& value) {
  if (value.isTensor()) return {value.toTensor()};
  if (value.isTensorList()) return value.toTensorVector();
  return {};
}

// True if an argument that is written changed its size.
bool resize_written(const c10::OperatorHandle& op, const Arguments& real, const Arguments& meta) {
  bool any = false;
  for (size_t i = 0; i < real.size(); i++) {
    const auto* alias = op.schema().arguments()[i].alias_info();
    if (!alias || !alias->isWrite()) continue;
    const auto old = tensors_in(real[i]), fresh = tensors_in(meta[i]);
    for (size_t k = 0; k < old.size(); k++) {
      if (!on_device(old[k]) || old[k].sizes() == fresh[k].sizes()) continue;
      resize_tensor(old[k], fresh[k].sizes(), fresh[k].strides());
      any = true;
    }
  }
  return any;
}

// Meta kernels say float32 for the statistics of a norm, as a GPU does; the CPU kernels behind this
// device keep the dtype of the input, and their backward wants it back.
void use_statistics_of_cpu(const c10::OperatorHandle& op, const Arguments& arguments,
                           std::vector<Shape>& shapes) {
  const auto& name = op.schema().name();
  if (name != "aten::native_layer_norm" && name != "aten::native_group_norm") return;
  const auto& weight = arguments[2];
  if (weight.isTensor() && weight.toTensor().defined() &&
      weight.toTensor().scalar_type() != shapes[0].dtype)
    return;  // mixed dtypes: float32 on the CPU too
  shapes[1].dtype = shapes[2].dtype = shapes[0].dtype;
}

}  // namespace

bool on_device(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == KIND;
}

c10::IValue with_tensors(const c10::IValue& value, c10::DeviceType device,
                         const std::function<at::Tensor(const at::Tensor&)>& change) {
  if (value.isTensor()) return change(value.toTensor());
  if (value.isDevice()) return c10::Device(device);
  if (value.isTensorList()) {
    c10::List<at::Tensor> changed;
    for (const at::Tensor& tensor : value.toTensorVector()) changed.push_back(change(tensor));
    return changed;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> changed;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
      changed.push_back(tensor ? std::optional(change(*tensor)) : std::nullopt);
    return changed;
  }
  return value;
}

void resize_tensor(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides) {
  const auto bytes = at::detail::computeStorageNbytes(sizes, strides, tensor.itemsize(),
                                                      tensor.storage_offset());
  if (bytes > tensor.storage().nbytes()) resize_storage(tensor.storage(), bytes);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
}

std::optional<std::vector<Shape>> result_shapes(const c10::OperatorHandle& op,
                                                const Arguments& arguments) {
  Key key(op);
  bool keyed = true;
  for (const auto& argument : arguments) keyed = keyed && key.add(argument);
  if (keyed)
    if (auto known = cache().find(key.text)) return known;

  Arguments meta;
  for (const auto& argument : arguments)
    meta.push_back(argument.isGenerator()
                       ? c10::IValue()
                       : with_tensors(argument, c10::DeviceType::Meta, meta_of));
  torch::jit::Stack stack(meta.begin(), meta.end());
  try {
    op.callBoxed(stack);
  } catch (const std::exception&) {
    return std::nullopt;
  }
  if (resize_written(op, arguments, meta)) keyed = false;
  std::vector<Shape> shapes;
  for (const auto& value : stack) shapes.push_back(shape_of(value));
  use_statistics_of_cpu(op, arguments, shapes);
  if (keyed) cache().keep(key.text, shapes);
  return shapes;
}

}  // namespace simulated
