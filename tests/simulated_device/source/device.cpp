// What torch asks of a device type: the guard (streams and events), the hooks, the generator.
#include "device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "memory.h"
#include "stream.h"

namespace simulated {

c10::Stream as_stream(int64_t id) {
  return c10::Stream(c10::Stream::UNSAFE, the_device(), id);
}

namespace {

struct Guard final : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType static_type = KIND;
  Guard() = default;
  explicit Guard(c10::DeviceType) {}

  c10::DeviceType type() const override { return KIND; }
  c10::Device exchangeDevice(c10::Device) const override { return the_device(); }
  c10::Device getDevice() const override { return the_device(); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }

  c10::Stream getStream(c10::Device) const override { return as_stream(current_id()); }
  c10::Stream getDefaultStream(c10::Device) const override { return as_stream(0); }
  c10::Stream getNewStream(c10::Device, int) const override {
    return as_stream(new_queue(false).id);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override {
    return as_stream(new_queue(false).id);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const auto before = current_id();
    set_current(stream.id());
    return as_stream(before);
  }
  bool queryStream(const c10::Stream& stream) const override { return queue(stream.id()).idle(); }
  void synchronizeStream(const c10::Stream& stream) const override {
    queue(stream.id()).synchronize();
  }
  void synchronizeDevice(c10::DeviceIndex) const override {
    for (auto* each : all_queues()) each->synchronize();
  }
  // Newer torch declares it; no `override`, for those that do not.
  bool isStreamCapturing(const c10::Stream& stream) const {
    return queue(stream.id()).capturing();
  }

  // An event of torch is a pointer that is null until the first record.
  static RecordingPtr& recording(void* event) { return *static_cast<RecordingPtr*>(event); }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex,
              c10::EventFlag) const override {
    auto fresh = queue(stream.id()).record();
    if (*event)
      recording(*event) = fresh;
    else
      *event = new RecordingPtr(fresh);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event) queue(stream.id()).wait_for(recording(event));
  }
  bool queryEvent(void* event) const override {
    require_alive();
    return !event || recording(event)->passed();
  }
  void synchronizeEvent(void* event) const override {
    require_alive();
    if (!event) return;
    const auto waited = recording(event);  // the event can be recorded anew meanwhile
    waited->wait_on_host();
    raise_asynchronous_error();
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<RecordingPtr*>(event);
  }
  double elapsedTime(void* from, void* to, c10::DeviceIndex) const override {
    require_alive();
    TORCH_CHECK(from && to, "sim: elapsed_time of an event that was not recorded");
    TORCH_CHECK(recording(from)->passed() && recording(to)->passed(),
                "sim: elapsed_time of an event that has not passed");
    const auto span = recording(to)->moment() - recording(from)->moment();
    // Milliseconds in float32, as a GPU gives them: long spans lose precision.
    return std::chrono::duration<float, std::milli>(span).count();
  }
};

// The numbers of a CPU generator with the same seed. Queued operations hold the generator that was
// the current one at their call; a new seed or state is a new one, so that setting it waits for
// nothing, and reading the state waits only while operations that draw from it are queued.
struct Generator final : c10::GeneratorImpl {
  explicit Generator(at::Generator inner)
      : GeneratorImpl(the_device(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        inner_(std::move(inner)) {}

  void set_current_seed(uint64_t seed) override { inner_ = at::detail::createCPUGenerator(seed); }
  uint64_t current_seed() const override { return inner_.current_seed(); }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return current_seed();
  }
  void set_offset(uint64_t) override { TORCH_CHECK(false, "sim: a generator has no offset"); }
  uint64_t get_offset() const override { TORCH_CHECK(false, "sim: a generator has no offset"); }
  void set_state(const c10::TensorImpl& state) override {
    auto fresh = at::detail::createCPUGenerator();
    fresh.unsafeGetGeneratorImpl()->set_state(state);
    inner_ = fresh;
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return settled().unsafeGetGeneratorImpl()->get_state();
  }
  Generator* clone_impl() const override { return new Generator(settled().clone()); }
  const at::Generator& inner() const { return inner_; }

 private:
  const at::Generator& settled() const {
    if (inner_.getIntrusivePtr().use_count() > 1)
      for (auto* each : all_queues()) each->synchronize();
    return inner_;
  }
  at::Generator inner_;
};

at::Generator new_generator() {
  return at::make_generator<Generator>(at::detail::createCPUGenerator());
}

struct Hooks final : at::PrivateUse1HooksInterface {
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  at::Device getDeviceFromPtr(void*) const override { return the_device(); }
  bool isPinnedPtr(const void* address) const override { return is_pinned(address); }
  at::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator(); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return default_generator();
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return new_generator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(storage, bytes);
  }
};

}  // namespace

at::Generator& default_generator() {
  static auto* generator = new at::Generator(new_generator());
  return *generator;
}

at::Generator generator_on_host(const std::optional<at::Generator>& wanted) {
  const auto& source = wanted && wanted->defined() ? *wanted : default_generator();
  if (source.device().type() != KIND) return source;
  return static_cast<const Generator*>(source.unsafeGetGeneratorImpl())->inner();
}

void register_device() {
  c10::SetAllocator(KIND, &device_allocator());
  at::RegisterPrivateUse1HooksInterface(new Hooks);
}

}  // namespace simulated

namespace c10::impl {
C10_REGISTER_GUARD_IMPL(PrivateUse1, simulated::Guard)
}
