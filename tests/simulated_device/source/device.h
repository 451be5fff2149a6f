#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Stream.h>

#include <optional>

namespace simulated {

c10::Stream as_stream(int64_t id);
// The CPU generator behind `wanted`, or behind the default one of the device.
at::Generator generator_on_host(const std::optional<at::Generator>& wanted);
at::Generator& default_generator();
void register_device();

}  // namespace simulated
