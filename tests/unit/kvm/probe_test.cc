#include "mvm/kvm/probe.h"

#include <sys/stat.h>
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

TEST(Probe, SaysThatADeviceIsNotForThisUser) {
  const sys::TempDir directory;
  const std::string device = directory.path() + "/kvm";
  sys::write_file_atomic(device, {});
  ASSERT_EQ(::chmod(device.c_str(), 0), 0);
  ASSERT_EQ(::chmod(directory.path().c_str(), 0755), 0);
  const auto judge = [&] {
    const HostSupport host = probe(device);
    return host.support == Support::NoPermission && !host.way_out.empty() &&
           host.message.find(device) != std::string::npos;
  };
  if (::geteuid() != 0) {
    EXPECT_TRUE(judge());
    return;
  }
  // Root may open anything: a child that is nobody asks.
  EXPECT_EXIT(
      {
        if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(2);
        ::_exit(judge() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
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
