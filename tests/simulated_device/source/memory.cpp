#include "memory.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "stream.h"

namespace simulated {

namespace {

std::atomic<int64_t> allocated{0};

Block new_block(size_t bytes) {
  void* address = nullptr;
  TORCH_CHECK(posix_memalign(&address, 64, std::max<size_t>(bytes, 64)) == 0, "sim: out of memory");
  allocated += static_cast<int64_t>(bytes);
  return {static_cast<char*>(address), [bytes](char* freed) {
            allocated -= static_cast<int64_t>(bytes);
            std::free(freed);
          }};
}

struct DeviceAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    auto* block = new Block(new_block(bytes));
    return {block->get(), block, &release, the_device()};
  }
  static void release(void* block) { delete static_cast<Block*>(block); }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

struct PinnedAllocator final : c10::Allocator {
  static inline std::mutex lock;
  static inline std::map<const char*, size_t> live;

  c10::DataPtr allocate(size_t bytes) override {
    bytes = std::max<size_t>(bytes, 1);
    auto* address = static_cast<char*>(std::malloc(bytes));
    std::lock_guard<std::mutex> hold(lock);
    live[address] = bytes;
    return {address, address, &release, c10::Device(c10::DeviceType::CPU)};
  }
  static void release(void* address) {
    {
      std::lock_guard<std::mutex> hold(lock);
      live.erase(static_cast<char*>(address));
    }
    std::free(address);
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

c10::Allocator& device_allocator() {
  static auto* allocator = new DeviceAllocator;
  return *allocator;
}

Block block_of(const c10::Storage& storage) {
  auto* block = static_cast<Block*>(storage.data_ptr().get_context());
  return block ? *block : nullptr;
}

int64_t bytes_allocated() { return allocated; }

c10::Allocator& pinned_allocator() {
  static auto* allocator = new PinnedAllocator;
  return *allocator;
}

bool is_pinned(const void* address) {
  const auto* wanted = static_cast<const char*>(address);
  std::lock_guard<std::mutex> hold(PinnedAllocator::lock);
  auto after = PinnedAllocator::live.upper_bound(wanted);
  if (after == PinnedAllocator::live.begin()) return false;
  const auto& [begin, bytes] = *std::prev(after);
  return wanted < begin + bytes;
}

void resize_storage(const c10::Storage& storage, size_t bytes) {
  const auto old = block_of(storage);
  const auto kept = std::min(bytes, storage.nbytes());
  auto fresh = bytes ? device_allocator().allocate(bytes) : c10::DataPtr(nullptr, the_device());
  if (old && kept) {
    Task copy;
    copy.work = [to = *static_cast<Block*>(fresh.get_context()), old, kept] {
      std::memcpy(to.get(), old.get(), kept);
    };
    current().push(std::move(copy));
  }
  auto* changed = storage.unsafeGetStorageImpl();
  changed->set_data_ptr_noswap(std::move(fresh));
  changed->set_nbytes(bytes);
}

}  // namespace simulated
