#include "mvm/store/paths.h"

#include <map>

#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/sys/file.h"

namespace mvm::store {
namespace {

using ::testing::HasSubstr;

Paths resolve(const std::map<std::string, std::string>& variables, uid_t user) {
  return Paths::resolve(
      [&](const char* name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        if (found == variables.end()) return std::nullopt;
        return found->second;
      },
      user);
}

Kind kind_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return Kind::Internal;
}

TEST(Paths, OfRootAreTheSystems) {
  const Paths paths = resolve({{"HOME", "/root"}, {"XDG_RUNTIME_DIR", "/run/user/0"}}, 0);
  EXPECT_EQ(paths.runtime(), "/run/mvm");
  EXPECT_EQ(paths.data(), "/var/lib/mvm");
}

TEST(Paths, OfAUserFollowXdg) {
  const Paths paths =
      resolve({{"XDG_RUNTIME_DIR", "/run/user/7"}, {"XDG_DATA_HOME", "/home/u/d"}}, 7);
  EXPECT_EQ(paths.runtime(), "/run/user/7/mvm");
  EXPECT_EQ(paths.data(), "/home/u/d/mvm");
}

TEST(Paths, OfAUserWithoutXdgAreUnderHomeAndTmp) {
  const Paths paths = resolve({{"HOME", "/home/u"}, {"XDG_RUNTIME_DIR", ""}}, 7);
  EXPECT_EQ(paths.runtime(), "/tmp/mvm-7");
  EXPECT_EQ(paths.data(), "/home/u/.local/share/mvm");
}

TEST(Paths, OwnVariablesComeFirst) {
  const Paths paths = resolve({{"MVM_RUNTIME_DIR", "/r"}, {"MVM_DATA_DIR", "/d"}}, 0);
  EXPECT_EQ(paths.control_socket("web"), "/r/s/web/control.sock");
  EXPECT_EQ(paths.vsock_socket("web"), "/r/s/web/vsock.sock");
  EXPECT_EQ(paths.overlay_image("sb-a"), "/d/sandboxes/sb-a/overlay.img");
  EXPECT_EQ(paths.state_db(), "/d/state.db");
}

TEST(Paths, RelativeOrMissingPlacesAreRefused) {
  EXPECT_EQ(kind_of([] { resolve({{"MVM_DATA_DIR", "data"}}, 0); }), Kind::Invalid);
  EXPECT_EQ(kind_of([] { resolve({}, 7); }), Kind::Unavailable);
}

TEST(Paths, EnsureMakesPrivateDirectoriesWhateverTheUmask) {
  const sys::TempDir scratch;
  const Paths paths(scratch.path() + "/a/r", scratch.path() + "/b/d");
  const mode_t old = ::umask(0);
  paths.ensure_runtime();
  paths.ensure_data();
  paths.ensure_data();  // again is fine
  paths.make_sandbox_data("sb-a");
  ::umask(old);
  struct stat status{};
  for (const std::string& path : {paths.runtime(), paths.sandboxes_runtime(), paths.data(),
                                  paths.images_dir(), paths.sandbox_data("sb-a")}) {
    ASSERT_EQ(::lstat(path.c_str(), &status), 0) << path;
    EXPECT_EQ(status.st_mode & 07777U, 0700U) << path;
  }
}

TEST(Paths, EnsureRefusesALinkAFileAndALooseDirectory) {
  const sys::TempDir scratch;
  const std::string path = scratch.path() + "/mvm";
  ASSERT_EQ(::symlink(scratch.path().c_str(), path.c_str()), 0);
  EXPECT_EQ(kind_of([&] { ensure_private_directory(path); }), Kind::Denied);
  sys::remove_file(path);
  sys::write_file_atomic(path, {});
  EXPECT_EQ(kind_of([&] { ensure_private_directory(path); }), Kind::Denied);
  sys::remove_file(path);
  ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(path.c_str(), 0777), 0);
  EXPECT_EQ(kind_of([&] { ensure_private_directory(path); }), Kind::Denied);
}

TEST(Paths, EnsureRefusesADirectoryOfSomebodyElse) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make another user's directory";
  const sys::TempDir scratch;
  const std::string path = scratch.path() + "/mvm";
  ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
  ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
  EXPECT_EQ(kind_of([&] { ensure_private_directory(path); }), Kind::Denied);
}

TEST(Paths, ASandboxsRuntimeDirectoryStartsEmpty) {
  const sys::TempDir scratch;
  const Paths paths(scratch.path() + "/r", scratch.path() + "/d");
  paths.ensure_runtime();
  paths.make_sandbox_runtime("web");
  sys::write_file_atomic(paths.control_socket("web"), {});
  paths.make_sandbox_runtime("web");
  EXPECT_FALSE(sys::exists(paths.control_socket("web")));
}

}
}
