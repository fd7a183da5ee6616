#pragma once
// How much memory something takes.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <malloc.h>

#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::image {

// Sanitizers keep what is freed, and more.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kMeasured = false;
#else
inline constexpr bool kMeasured = true;
#endif

inline constexpr uint64_t kMostGrowth = uint64_t{48}
                                        << 20;  // of 64 MiB, the rest being the daemon's own

// How much more than before was resident at most while `work` ran.
template <typename Work>
uint64_t growth_of(Work work) {
  const auto field = [](const char* name) {
    const std::string status = sys::read_text_file("/proc/self/status", 65536);
    return std::strtoull(status.c_str() + status.find(name) + std::strlen(name), nullptr, 10) *
           1024;
  };
  ::malloc_trim(0);  // or what was freed before would be taken again, unseen
  const sys::Fd fd = sys::open_file("/proc/self/clear_refs", O_WRONLY);
  sys::write_all(fd.get(), as_bytes(std::string_view("5")));  // VmHWM from now on; proc(5)
  const uint64_t before = field("VmRSS:");
  work();
  const uint64_t peak = field("VmHWM:");
  std::printf("%lu MiB more than before\n", static_cast<unsigned long>((peak - before) >> 20));
  return peak - before;
}

}
