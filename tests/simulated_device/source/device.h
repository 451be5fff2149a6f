#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Stream.h>

#include <optional>

namespace simulated {

c10::Stream as_stream(int64_t id);
// A new CPU generator whose seed is drawn from `wanted`, or from the default one of the device.
at::Generator seeded_generator(const std::optional<at::Generator>& wanted);
at::Generator& default_generator();
void register_device();

}  // namespace simulated
