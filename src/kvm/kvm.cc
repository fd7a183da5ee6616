#include "mvm/kvm/kvm.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <linux/kvm.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mvm/base/bytes.h"
#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/kvm/layout.h"
#include "mvm/kvm/requests.h"
#include "mvm/sys/error.h"
#include "mvm/sys/io.h"

namespace mvm::kvm {

static_assert(kRunRequest == KVM_RUN && kInterruptRequest == KVM_IRQ_LINE);
static_assert(kCpuidSignificantIndex == KVM_CPUID_FLAG_SIGNIFCANT_INDEX);

static constexpr size_t kMaxCpuid = 256;

// ---- the device -------------------------------------------------------------------------------

struct Needed {
  long capability;
  const char* name;
};
static constexpr auto kNeeded = std::to_array<Needed>({
    {KVM_CAP_IRQCHIP, "KVM_CAP_IRQCHIP"},
    {KVM_CAP_USER_MEMORY, "KVM_CAP_USER_MEMORY"},
    {KVM_CAP_EXT_CPUID, "KVM_CAP_EXT_CPUID"},
    {KVM_CAP_IOEVENTFD, "KVM_CAP_IOEVENTFD"},
    {KVM_CAP_IMMEDIATE_EXIT, "KVM_CAP_IMMEDIATE_EXIT"},
    {KVM_CAP_SET_TSS_ADDR, "KVM_CAP_SET_TSS_ADDR"},
    {KVM_CAP_SET_IDENTITY_MAP_ADDR, "KVM_CAP_SET_IDENTITY_MAP_ADDR"},
    {KVM_CAP_TSC_DEADLINE_TIMER, "KVM_CAP_TSC_DEADLINE_TIMER"},  // guest_cpuid() announces it
    {KVM_CAP_MP_STATE, "KVM_CAP_MP_STATE"},
});

Kvm::Kvm(sys::Fd device) : device_(std::move(device)) {
  const int version =
      sys::check(::ioctl(fd(), KVM_GET_API_VERSION, 0), "asking KVM for its version");
  if (version != KVM_API_VERSION)
    throw Error(Kind::Unsupported, "KVM has API version " + std::to_string(version) + ", not 12");
  for (const auto& needed : kNeeded)
    if (::ioctl(fd(), KVM_CHECK_EXTENSION, needed.capability) <= 0)
      throw Error(Kind::Unsupported, std::string("this host's KVM lacks ") + needed.name);
  run_size_ = static_cast<size_t>(sys::check(::ioctl(fd(), KVM_GET_VCPU_MMAP_SIZE, 0),
                                             "asking KVM for the size of its run area"));
}

// A kernel structure with an array behind it, in one allocation as the kernel wants them. operator
// new aligns for both.
template <typename Header, typename Entry>
class WithEntries {
 public:
  explicit WithEntries(size_t count)
      : bytes_(sizeof(Header) + count * sizeof(Entry)), count_(count) {}
  Header& header() { return *reinterpret_cast<Header*>(bytes_.data()); }
  std::span<Entry> entries() {
    return {reinterpret_cast<Entry*>(bytes_.data() + sizeof(Header)), count_};
  }
  void* data() { return bytes_.data(); }

 private:
  Bytes bytes_;
  size_t count_;
};
// The headers are our own: older linux/stddef.h makes kvm_cpuid2 and kvm_msrs four bytes longer in
// C++ than in C (an empty struct has a size there), and with them every request number that is
// computed from them.
struct CpuidHeader {
  uint32_t nent;
  uint32_t padding;
};
struct MsrHeader {
  uint32_t nmsrs;
  uint32_t padding;
};
using CpuidBuffer = WithEntries<CpuidHeader, kvm_cpuid_entry2>;
using MsrBuffer = WithEntries<MsrHeader, kvm_msr_entry>;
static constexpr unsigned long kGetSupportedCpuid = _IOWR(KVMIO, 0x05, CpuidHeader);
static constexpr unsigned long kSetCpuid2 = _IOW(KVMIO, 0x90, CpuidHeader);
static constexpr unsigned long kSetMsrs = _IOW(KVMIO, 0x89, MsrHeader);

std::vector<CpuidEntry> Kvm::supported_cpuid() const {
  CpuidBuffer buffer(kMaxCpuid);
  buffer.header().nent = kMaxCpuid;
  sys::check(::ioctl(fd(), kGetSupportedCpuid, buffer.data()), "asking KVM for CPU features");
  std::vector<CpuidEntry> out;
  for (const auto& entry :
       buffer.entries().first(std::min<size_t>(buffer.header().nent, kMaxCpuid)))
    out.push_back(
        {entry.function, entry.index, entry.flags, entry.eax, entry.ebx, entry.ecx, entry.edx});
  return out;
}

Vm Kvm::create_vm() const {
  // A signal in the middle, or memory pressure on the host's side, makes this fail for a moment
  // under load.
  for (int attempt = 0;; ++attempt) {
    const int vm = ::ioctl(fd(), KVM_CREATE_VM, 0);
    if (vm >= 0) return Vm(sys::Fd(vm));
    if (errno != EINTR || attempt == 5) throw SystemError(errno, "creating a virtual machine");
  }
}

// ---- the machine ------------------------------------------------------------------------------

void Vm::create_irqchip() {
  uint64_t identity_map = layout::kIdentityMap;
  sys::check(::ioctl(fd(), KVM_SET_IDENTITY_MAP_ADDR, &identity_map), "placing KVM's identity map");
  sys::check(::ioctl(fd(), KVM_SET_TSS_ADDR, layout::kTss), "placing KVM's task state");
  sys::check(::ioctl(fd(), KVM_CREATE_IRQCHIP, 0), "making the interrupt controllers");
}

void Vm::set_memory(const memory::GuestMemory& memory) {
  for (const auto& region : memory.regions()) {
    kvm_userspace_memory_region request{};
    request.slot = memory_slots_++;
    request.guest_phys_addr = region.start.value;
    request.memory_size = region.size;
    request.userspace_addr =
        reinterpret_cast<uint64_t>(region.host);  // the kernel's form of a pointer
    sys::check(::ioctl(fd(), KVM_SET_USER_MEMORY_REGION, &request), "giving memory to the guest");
  }
}

bool Vm::show_read_only(std::span<const std::byte> bytes, memory::GuestAddress address) {
  kvm_userspace_memory_region request{};
  request.slot = memory_slots_;
  request.flags = KVM_MEM_READONLY;
  request.guest_phys_addr = address.value;
  request.memory_size = bytes.size();
  request.userspace_addr = reinterpret_cast<uint64_t>(bytes.data());
  if (::ioctl(fd(), KVM_SET_USER_MEMORY_REGION, &request) != 0) return false;
  ++memory_slots_;
  return true;
}

void Vm::pulse(uint32_t gsi) const noexcept {
  kvm_irq_level line{};
  line.irq = gsi;
  for (const uint32_t level : {1U, 0U}) {
    line.level = level;
    // Fails for a VM without interrupt controllers alone (KVM API, 4.25).
    MVM_ASSERT(::ioctl(fd(), KVM_IRQ_LINE, &line) == 0);
  }
}

void Vm::add_ioeventfd(int event_fd, memory::GuestAddress address, uint32_t value) {
  kvm_ioeventfd request{};
  request.fd = event_fd;
  request.addr = address.value;
  request.len = sizeof value;
  request.datamatch = value;
  request.flags = KVM_IOEVENTFD_FLAG_DATAMATCH;
  sys::check(::ioctl(fd(), KVM_IOEVENTFD, &request), "connecting a queue's notification");
}

bool Vm::coalesce_writes(memory::GuestAddress address, uint32_t size) {
  kvm_coalesced_mmio_zone zone{};
  zone.addr = address.value;
  zone.size = size;
  return ::ioctl(fd(), KVM_REGISTER_COALESCED_MMIO, &zone) == 0;
}

Vcpu Vm::create_vcpu(uint32_t index, const Kvm& kvm) {
  sys::Fd vcpu(sys::check(::ioctl(fd(), KVM_CREATE_VCPU, static_cast<unsigned long>(index)),
                          "creating a vCPU"));
  auto run = sys::Mapping::map(vcpu.get(), 0, kvm.run_size(), PROT_READ | PROT_WRITE, MAP_SHARED);
  return {std::move(vcpu), std::move(run), index};
}

CoalescedWrites Vcpu::coalesced_writes() const {
  // The ring's page follows that of struct kvm_run and that of port data, where there is one.
  constexpr size_t kAt = KVM_COALESCED_MMIO_PAGE_OFFSET * memory::kPageSize;
  if (run_.size() < kAt + memory::kPageSize) return {};
  return CoalescedWrites(run_.bytes().subspan(kAt, memory::kPageSize));
}

int Vm::stats_fd() const { return ::ioctl(fd(), KVM_GET_STATS_FD, 0); }
int Vcpu::stats_fd() const { return ::ioctl(fd_.get(), KVM_GET_STATS_FD, 0); }

// ---- a vCPU -----------------------------------------------------------------------------------

void Vcpu::set_cpuid(std::span<const CpuidEntry> entries) {
  CpuidBuffer buffer(entries.size());
  buffer.header().nent = static_cast<uint32_t>(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    auto& to = buffer.entries()[i];
    to.function = entries[i].function;
    to.index = entries[i].index;
    to.flags = entries[i].flags;
    to.eax = entries[i].eax;
    to.ebx = entries[i].ebx;
    to.ecx = entries[i].ecx;
    to.edx = entries[i].edx;
  }
  sys::check(::ioctl(fd_.get(), kSetCpuid2, buffer.data()), "setting CPU features");
}

void Vcpu::set_msrs(std::span<const std::pair<uint32_t, uint64_t>> msrs) {
  MsrBuffer buffer(msrs.size());
  buffer.header().nmsrs = static_cast<uint32_t>(msrs.size());
  for (size_t i = 0; i < msrs.size(); ++i) {
    buffer.entries()[i].index = msrs[i].first;
    buffer.entries()[i].data = msrs[i].second;
  }
  // The result is how many were taken: a short count is a silent loss.
  const int taken = sys::check(::ioctl(fd_.get(), kSetMsrs, buffer.data()), "setting MSRs");
  if (static_cast<size_t>(taken) == msrs.size()) return;
  const uint32_t refused = __builtin_bswap32(msrs[static_cast<size_t>(taken)].first);
  throw Error(Kind::Unsupported,
              "this host's KVM does not take MSR 0x" + hex(std::as_bytes(std::span(&refused, 1))));
}

uint32_t Vcpu::tsc_khz() const {
  const int khz = ::ioctl(fd_.get(), KVM_GET_TSC_KHZ, 0);
  return khz > 0 ? static_cast<uint32_t>(khz) : 0;
}

void Vcpu::set_lapic_pins() {
  constexpr size_t kLint0 = 0x350, kLint1 = 0x360;
  constexpr uint32_t kDeliveryMode = 7U << 8, kExtInt = 7U << 8, kNmi = 4U << 8;
  kvm_lapic_state state{};
  sys::check(::ioctl(fd_.get(), KVM_GET_LAPIC, &state), "reading the local APIC");
  const auto set_mode = [&state](size_t offset, uint32_t mode) {
    uint32_t value = 0;
    std::memcpy(&value, &state.regs[offset], sizeof value);
    value = (value & ~kDeliveryMode) | mode;
    std::memcpy(&state.regs[offset], &value, sizeof value);
  };
  set_mode(kLint0, kExtInt);
  set_mode(kLint1, kNmi);
  sys::check(::ioctl(fd_.get(), KVM_SET_LAPIC, &state), "setting the local APIC");
}

static kvm_segment flat_segment(uint16_t selector, uint8_t type, bool long_mode) {
  kvm_segment segment{};
  segment.limit = 0xffff'ffff;
  segment.selector = selector;
  segment.type = type;
  segment.present = 1;
  segment.s = 1;
  segment.g = 1;
  segment.db = long_mode ? 0 : 1;
  segment.l = long_mode ? 1 : 0;
  return segment;
}

void Vcpu::set_entry(const Entry& entry) {
  constexpr uint8_t kCode = 0xb, kData = 0x3, kBusyTss = 0xb;  // accessed
  constexpr uint64_t kProtectedMode = 1, kExtensionType = 1 << 4, kPaging = uint64_t{1} << 31;
  constexpr uint64_t kPae = 1 << 5;
  constexpr uint64_t kLongModeEnabled = 1 << 8, kLongModeActive = 1 << 10;

  kvm_sregs sregs{};
  sys::check(::ioctl(fd_.get(), KVM_GET_SREGS, &sregs), "reading a vCPU's registers");
  sregs.cs = flat_segment(0x08, kCode, entry.long_mode);
  const kvm_segment data = flat_segment(0x10, kData, false);
  sregs.ds = sregs.es = sregs.fs = sregs.gs = sregs.ss = data;
  sregs.tr = {};
  sregs.tr.selector = 0x18;
  sregs.tr.limit = 0x67;
  sregs.tr.type = kBusyTss;
  sregs.tr.present = 1;
  sregs.gdt.base = entry.gdt;
  sregs.gdt.limit = 0x27;
  sregs.idt.base = 0;
  sregs.idt.limit = 0;
  sregs.cr0 = kProtectedMode | kExtensionType;
  sregs.cr4 = 0;
  sregs.efer = 0;
  if (entry.long_mode) {
    sregs.cr3 = entry.page_table;
    sregs.cr4 = kPae;
    sregs.efer = kLongModeEnabled | kLongModeActive;
    sregs.cr0 |= kPaging;
  }
  sys::check(::ioctl(fd_.get(), KVM_SET_SREGS, &sregs), "setting a vCPU's registers");

  kvm_regs regs{};
  regs.rip = entry.rip;
  regs.rbx = entry.rbx;
  regs.rsi = entry.rsi;
  regs.rflags = 2;  // the bit that is always set
  sys::check(::ioctl(fd_.get(), KVM_SET_REGS, &regs), "setting a vCPU's registers");
}

uint64_t Vcpu::rip() const {
  kvm_regs regs{};
  sys::check(::ioctl(fd_.get(), KVM_GET_REGS, &regs), "reading a vCPU's registers");
  return regs.rip;
}

void Vcpu::request_exit() noexcept {
  // Shared with the kernel, which looks at it when it enters the guest.
  auto* run = reinterpret_cast<kvm_run*>(run_.data());
  __atomic_store_n(&run->immediate_exit, uint8_t{1}, __ATOMIC_SEQ_CST);
}

const char* exit_reason_name(ExitReason reason) noexcept {
  switch (reason) {
    case ExitReason::PortIn:
      return "port_in";
    case ExitReason::PortOut:
      return "port_out";
    case ExitReason::MmioRead:
      return "mmio_read";
    case ExitReason::MmioWrite:
      return "mmio_write";
    case ExitReason::Halt:
      return "halt";
    case ExitReason::Shutdown:
      return "shutdown";
    case ExitReason::SystemEvent:
      return "system_event";
    case ExitReason::Interrupted:
      return "interrupted";
    case ExitReason::InternalError:
      return "internal_error";
    case ExitReason::FailEntry:
      return "fail_entry";
    case ExitReason::Other:
      break;
  }
  return "other";
}

Exit Vcpu::run() {
  // The layout is the kernel's; the mapping is as long as it said.
  auto* run = reinterpret_cast<kvm_run*>(run_.data());
  constexpr int kMaxOutOfMemory = 1000;
  int out_of_memory = 0;
  while (::ioctl(fd_.get(), KVM_RUN, 0) != 0) {
    if (errno == EINTR) {
      // A request is done with. One that comes after this line is for the next run.
      __atomic_store_n(&run->immediate_exit, uint8_t{0}, __ATOMIC_SEQ_CST);
      return {.reason = ExitReason::Interrupted};
    }
    // Linux 6.12 and 6.13 say ENOMEM under pressure and mean "again"; others mean it.
    const bool again = errno == EAGAIN || (errno == ENOMEM && ++out_of_memory < kMaxOutOfMemory);
    if (!again) throw SystemError(errno, "running a vCPU");
  }
  switch (run->exit_reason) {
    case KVM_EXIT_IO: {
      const auto& io = run->io;
      const size_t length = size_t{io.size} * io.count;
      MVM_ASSERT(io.data_offset <= run_.size() && length <= run_.size() - io.data_offset);
      return {.reason = io.direction == KVM_EXIT_IO_IN ? ExitReason::PortIn : ExitReason::PortOut,
              .address = io.port,
              .data = run_.bytes().subspan(io.data_offset, length),
              .size = io.size};
    }
    case KVM_EXIT_MMIO: {
      auto& mmio = run->mmio;
      MVM_ASSERT(mmio.len <= sizeof mmio.data);
      return {.reason = mmio.is_write != 0 ? ExitReason::MmioWrite : ExitReason::MmioRead,
              .address = mmio.phys_addr,
              .data = std::as_writable_bytes(std::span(mmio.data)).first(mmio.len),
              .size = mmio.len};
    }
    case KVM_EXIT_HLT:
      return {.reason = ExitReason::Halt};
    case KVM_EXIT_SHUTDOWN:
      return {.reason = ExitReason::Shutdown};
    case KVM_EXIT_SYSTEM_EVENT:
      return {.reason = ExitReason::SystemEvent, .detail = run->system_event.type};
    case KVM_EXIT_INTR:
      return {.reason = ExitReason::Interrupted};
    case KVM_EXIT_INTERNAL_ERROR:
      return {.reason = ExitReason::InternalError, .detail = run->internal.suberror};
    case KVM_EXIT_FAIL_ENTRY:
      return {.reason = ExitReason::FailEntry,
              .detail = run->fail_entry.hardware_entry_failure_reason};
    default:
      return {.reason = ExitReason::Other, .detail = run->exit_reason};
  }
}

// ---- counters ---------------------------------------------------------------------------------

Counters read_stats(int stats_fd) {
  if (stats_fd < 0) return {};
  constexpr uint32_t kMaxStats = 256, kMaxName = 128;
  kvm_stats_header header{};
  if (!sys::pread_exact(stats_fd, std::as_writable_bytes(std::span(&header, 1)), 0)) return {};
  if (header.num_desc > kMaxStats || header.name_size > kMaxName) return {};
  // struct kvm_stats_desc up to its name, for the same reason as above.
  struct Descriptor {
    uint32_t flags;
    int16_t exponent;
    uint16_t size;
    uint32_t offset;
    uint32_t bucket_size;
  };
  Counters counters;
  Bytes descriptor(sizeof(Descriptor) + header.name_size);
  for (uint32_t i = 0; i < header.num_desc; ++i) {
    if (!sys::pread_exact(stats_fd, descriptor,
                          header.desc_offset + uint64_t{i} * descriptor.size()))
      break;
    Descriptor fixed{};
    std::memcpy(&fixed, descriptor.data(), sizeof fixed);
    if (fixed.size != 1) continue;  // histograms
    uint64_t value = 0;
    if (!sys::pread_exact(stats_fd, std::as_writable_bytes(std::span(&value, 1)),
                          header.data_offset + fixed.offset))
      break;
    const auto name = as_text(ByteView(descriptor).subspan(sizeof fixed));
    counters.emplace_back(name.substr(0, name.find('\0')), value);
  }
  return counters;
}

}
