// Memory of the device: host memory that queued operations keep alive.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>

#include <memory>

namespace simulated {

constexpr auto KIND = c10::DeviceType::PrivateUse1;
inline c10::Device the_device() { return {KIND, 0}; }

// Shared by a storage and by every queued operation that touches it. So memory that is freed or
// resized to nothing (FSDP2 does) stays valid until the device has passed.
using Block = std::shared_ptr<char>;

c10::Allocator& device_allocator();
Block block_of(const c10::Storage& storage);  // null for a storage of no bytes
int64_t bytes_allocated();

c10::Allocator& pinned_allocator();
bool is_pinned(const void* address);

// Gives a storage other memory of `bytes` in stream order and keeps what fits.
void resize_storage(const c10::Storage& storage, size_t bytes);

}  // namespace simulated
