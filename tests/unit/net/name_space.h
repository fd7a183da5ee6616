#pragma once
// A look into the namespace of a guest's network, for root.
#include <array>
#include <string>

#include <linux/if_tun.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/sys/fd.h"

namespace mvm::net {

#ifndef TUNGETDEVNETNS
#define TUNGETDEVNETNS _IO('T', 227)
#endif

// What a command prints in a network namespace; nothing when it cannot be entered.
inline std::string in_namespace(int name_space, const char* command) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], 1);
    if (::setns(name_space, CLONE_NEWNET) == 0) ::execl("/bin/sh", "sh", "-c", command, nullptr);
    ::_exit(1);
  }
  ::close(ends[1]);
  std::string text;
  std::array<char, 4096> part;
  for (ssize_t got = 0; (got = ::read(ends[0], part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<size_t>(got));
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return text;
}

// Where a TAP is; nothing on kernels that do not say.
inline sys::Fd name_space_of(const sys::Fd& tap) {
  return sys::Fd(::ioctl(tap.get(), TUNGETDEVNETNS));
}

}
