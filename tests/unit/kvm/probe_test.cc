#include "mvm/kvm/probe.h"

#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/sys/file.h"

namespace mvm::kvm {

TEST(Probe, SaysThatThereIsNoDevice) {
  const HostSupport host = probe("/nonexistent/kvm");
  EXPECT_EQ(host.support, Support::NoDevice);
  EXPECT_EQ(host.message, "there is no /nonexistent/kvm");
  EXPECT_FALSE(host.way_out.empty());
}

TEST(Probe, SaysThatADeviceIsNotKvm) {
  const HostSupport host = probe("/dev/null");
  EXPECT_EQ(host.support, Support::NotKvm);
  EXPECT_FALSE(host.way_out.empty());
}

TEST(Probe, JudgesThisHostByTrying) {
  const HostSupport host = probe();
  // Hardware virtualisation shows in the CPU's flags; an emulated KVM is there without.
  const std::string cpus = sys::read_text_file("/proc/cpuinfo", 4 << 20);
  const bool hardware =
      cpus.find(" vmx ") != std::string::npos || cpus.find(" svm ") != std::string::npos;
  if (!sys::exists("/dev/kvm")) {
    EXPECT_EQ(host.support, Support::NoDevice);
  } else if (::access("/dev/kvm", R_OK | W_OK) != 0) {
    EXPECT_EQ(host.support, Support::NoPermission);
  } else {
    EXPECT_EQ(host.support, hardware ? Support::Usable : Support::CannotRunStockKernel)
        << host.message;
  }
}

}
