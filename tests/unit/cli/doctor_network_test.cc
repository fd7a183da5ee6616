// Hosts that make no network: the conditions are real, in namespaces of the test's own, but for
// those that only a whole host can have.
#include "../../../src/cli/doctor_network.h"

#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

#include <gmock/gmock.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/net/guest_network.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/process.h"

namespace mvm::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void put(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

std::string made_network() {
  try {
    net::make_guest_network({}, net::kMaxMtu);
    return "";
  } catch (const Error& error) {
    return error.message();
  }
}

class NetworkObstacle : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string failure = made_network(); !failure.empty())
      GTEST_SKIP() << "this host makes none: " << failure;
  }
  // Prepares a host in namespaces of its own, and says there what a network would lack.
  Obstacle found(const std::function<void()>& prepare, const std::string& root = "") {
    sys::SpawnOptions options;
    options.namespaces = CLONE_NEWUSER | CLONE_NEWNS;
    const std::string report = folder_.path() + "/report";
    const auto failure = sys::try_in_child(options, [&] {
      sys::check(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "own mounts");
      prepare();
      const std::string why = made_network();
      if (why.empty()) throw Error(Kind::Internal, "there is a network all the same");
      const Obstacle obstacle = network_obstacle(why, root);
      put(report, obstacle.what + "\n" + obstacle.way_out);
    });
    EXPECT_FALSE(failure) << *failure;
    if (failure) return {};
    const std::string text = sys::read_text_file(report, 1 << 16);
    const size_t end = text.find('\n');
    return {text.substr(0, end), text.substr(end + 1)};
  }
  sys::TempDir folder_;
};

TEST_F(NetworkObstacle, IsAHostWithoutUserNamespaces) {
  const Obstacle obstacle = found([] { put("/proc/sys/user/max_user_namespaces", "0"); });
  EXPECT_THAT(obstacle.what, HasSubstr("user namespaces are restricted"));
  EXPECT_EQ(obstacle.way_out, "sysctl -w user.max_user_namespaces=10000");
}

// The settings of Debian and Ubuntu are a host's, not a namespace's: what they lead to is had here
// by the one above, and their files are the test's.
TEST_F(NetworkObstacle, IsTheSettingOfTheDistribution) {
  const auto way_out_with = [&](const std::string& setting, const std::string& value) {
    const std::string root = folder_.path() + "/" + setting;
    put(root + "/proc/sys/" + setting, value + "\n");
    return found([] { put("/proc/sys/user/max_user_namespaces", "0"); }, root).way_out;
  };
  EXPECT_EQ(way_out_with("kernel/unprivileged_userns_clone", "0"),
            "sysctl -w kernel.unprivileged_userns_clone=1");
  EXPECT_THAT(way_out_with("kernel/apparmor_restrict_unprivileged_userns", "1"),
              AllOf(HasSubstr("apparmor_restrict_unprivileged_userns=0"), HasSubstr("profile")));
  EXPECT_THAT(way_out_with("kernel/unprivileged_userns_clone", "1"), HasSubstr("in a container"));
}

TEST_F(NetworkObstacle, IsAMissingTun) {
  const Obstacle obstacle = found(
      [] { sys::check(::mount("tmpfs", "/dev/net", "tmpfs", 0, nullptr), "hiding /dev/net"); });
  EXPECT_EQ(obstacle.what, "there is no /dev/net/tun");
  EXPECT_THAT(obstacle.way_out, AllOf(HasSubstr("modprobe tun"), HasSubstr("--device")));
}

TEST_F(NetworkObstacle, IsATunThatMayNotBeOpened) {
  const Obstacle obstacle = found([] {
    const char* tun = "/dev/net/tun";
    sys::check(::mount(tun, tun, nullptr, MS_BIND, nullptr), "binding it");
    sys::check(::mount(nullptr, tun, nullptr,
                       MS_REMOUNT | MS_BIND | MS_NODEV | MS_NOSUID | MS_NOEXEC, nullptr),
               "shutting it");
  });
  EXPECT_THAT(obstacle.what, HasSubstr("/dev/net/tun may not be opened (Permission denied)"));
  EXPECT_THAT(obstacle.way_out, HasSubstr("chmod 666 /dev/net/tun"));
}

TEST_F(NetworkObstacle, IsOtherwiseWhatTheAttemptSaid) {
  EXPECT_EQ(network_obstacle("x: No such file or directory", folder_.path()).what,
            "x: No such file or directory");
}

TEST(MissingModules, AreThoseThatTheKernelHasNowhere) {
  const sys::TempDir root;
  const std::string folder = root.path() + "/lib/modules/6.1.0/";
  EXPECT_THAT(missing_modules("6.1.0", root.path()), IsEmpty()) << "nothing is known";
  put(folder + "modules.builtin",
      "kernel/net/netfilter/nf_tables.ko\nkernel/net/netfilter/nfnetlink_log.ko\n");
  put(folder + "modules.dep",
      "kernel/net/netfilter/nft_log.ko.xz: kernel/net/netfilter/nf_tables.ko\n"
      "kernel/net/netfilter/nft_reject_inet.ko.zst:\nkernel/net/netfilter/my_nft_socket.ko:\n");
  EXPECT_EQ(missing_modules("6.1.0", root.path()), "nft_tproxy, nft_socket");
  put(root.path() + "/proc/modules", "nft_tproxy 16384 1 - Live 0x0\nnft_socket2 1 0 - Live 0x0\n");
  EXPECT_EQ(missing_modules("6.1.0", root.path()), "nft_socket");
  EXPECT_THAT(missing_modules("6.1.1", root.path()), IsEmpty());
}

}
}
