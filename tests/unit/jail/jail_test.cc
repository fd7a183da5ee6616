// The stages, each gone through by a real child process, which tells what it finds afterwards.
#include "mvm/jail/jail.h"

#include <array>
#include <cerrno>
#include <functional>
#include <string>

#include <fcntl.h>
#include <net/if.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/socket.h"

namespace mvm::jail {

static constexpr Limits kLimits{
    .files = 64, .file_size = 1 << 20, .locked = 0, .processes = std::nullopt};

// Thrown in the child; the parent reads it.
static void require(bool condition, const std::string& what) {
  if (!condition) throw Error(Kind::Internal, what + " (" + sys::errno_text(errno) + ")");
}

// "" when `body` went through in a child that was set apart.
static std::string apart(Isolation isolation, const std::function<void()>& body,
                         Network network = Network::Empty) {
  sys::SpawnOptions options;
  set_apart(options, isolation, network);
  return sys::try_in_child(options, body).value_or("");
}

class Jail : public testing::Test {
 protected:
  void SetUp() override {
    if (host_.isolation == Isolation::None) GTEST_SKIP() << host_.missing;
  }
  const HostSupport host_ = probe_host();
  const sys::TempDir scratch_;
};

TEST_F(Jail, ChildIsTheFirstOfItsNamespaces) {
  const auto of = [](const char* name) {
    std::array<char, 64> text{};
    require(::readlink(("/proc/self/ns/" + std::string(name)).c_str(), text.data(),
                       text.size() - 1) > 0,
            name);
    return std::string(text.data());
  };
  for (const char* name : {"mnt", "pid", "ipc", "uts", "net"}) {
    const std::string ours = of(name);
    EXPECT_EQ(apart(host_.isolation, [&] { require(of(name) != ours, name); }), "");
  }
  if (host_.isolation == Isolation::Full) {
    const std::string ours = of("user");
    EXPECT_EQ(apart(host_.isolation, [&] { require(of("user") != ours, "user"); }), "");
  }
  EXPECT_EQ(apart(host_.isolation, [] { require(::getpid() == 1, "it is process 1"); }), "");
}

TEST_F(Jail, OwnUserAndGroupKeepTheirNumbers) {
  EXPECT_EQ(apart(host_.isolation,
                  [user = ::geteuid(), group = ::getegid()] {
                    require(::geteuid() == user && ::getegid() == group, "the ids");
                  }),
            "");
}

TEST_F(Jail, EmptyNetworkHasNoDeviceThatIsUp) {
  EXPECT_EQ(apart(host_.isolation,
                  [] {
                    const sys::Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
                    for (int index = 1; index < 16; ++index) {
                      ifreq request{};
                      request.ifr_ifindex = index;
                      if (::ioctl(socket.get(), SIOCGIFNAME, &request) != 0) continue;
                      require(::ioctl(socket.get(), SIOCGIFFLAGS, &request) == 0, "flags");
                      require((request.ifr_flags & IFF_UP) == 0, request.ifr_name);
                    }
                  }),
            "");
}

TEST_F(Jail, RootIsEmptyAndReadOnly) {
  const std::string existing = scratch_.path() + "/file";
  sys::write_file_atomic(existing, as_bytes("x"));
  EXPECT_EQ(apart(host_.isolation,
                  [&] {
                    leave_file_system(host_.isolation, {});
                    require(!sys::exists(existing) && errno == ENOENT, "a file of the host");
                    require(!sys::exists("/proc"), "/proc");
                    require(
                        ::open("/new", O_CREAT | O_WRONLY | O_CLOEXEC, 0600) < 0 && errno == EROFS,
                        "a new file");
                    require(sys::list_directory("/").empty() && sys::list_directory("..").empty(),
                            "the root is empty");
                  }),
            "");
}

TEST_F(Jail, KeptDirectoryIsAllThatIsKept) {
  const std::string inner = scratch_.path() + "/inner";
  sys::make_directories(inner);
  sys::write_file_atomic(scratch_.path() + "/secret", as_bytes("secret"));
  ASSERT_EQ(::symlink("../secret", (inner + "/link").c_str()), 0);
  ASSERT_EQ(::symlink((scratch_.path() + "/secret").c_str(), (inner + "/absolute").c_str()), 0);
  // As in life: opened before, by a process of another mount namespace.
  const sys::Fd kept = sys::open_file(inner, O_PATH | O_DIRECTORY);
  EXPECT_EQ(apart(host_.isolation,
                  [&] {
                    leave_file_system(host_.isolation, std::array{kept.get()});
                    const auto opens = [&](const char* name) {
                      return ::openat(kept.get(), name, O_RDONLY | O_CLOEXEC) >= 0;
                    };
                    require(!opens("../secret") && errno == ENOENT, "the parent's file");
                    require(!opens("link") && errno == ELOOP, "a link to it");
                    require(!opens("absolute") && errno == ELOOP, "an absolute link to it");
                    const sys::Fd made = sys::open_at(kept.get(), "made", O_CREAT | O_WRONLY);
                    require(::fchdir(kept.get()) == 0, "as the working directory");
                    require(!sys::exists("../secret"), "the parent of the working directory");
                  }),
            "");
  EXPECT_TRUE(sys::exists(inner + "/made"));
}

TEST_F(Jail, SocketInAKeptDirectoryIsReached) {
  const sys::Fd listener = sys::listen_unix(scratch_.path() + "/socket");
  const sys::Fd kept = sys::open_file(scratch_.path(), O_PATH | O_DIRECTORY);
  EXPECT_EQ(apart(host_.isolation,
                  [&] {
                    leave_file_system(host_.isolation, std::array{kept.get()});
                    require(::fchdir(kept.get()) == 0, "entering");
                    give_up_rights({.limits = kLimits, .writable = std::array{kept.get()}});
                    require(sys::connect_unix("socket").has_value(), "connecting");
                  }),
            "");
}

TEST_F(Jail, ReplacedDirectoryIsRefused) {
  const std::string inner = scratch_.path() + "/inner";
  sys::make_directories(inner);
  const sys::Fd kept = sys::open_file(inner, O_PATH | O_DIRECTORY);
  sys::rename_file(inner, scratch_.path() + "/elsewhere");
  ASSERT_EQ(::symlink("/etc", inner.c_str()), 0);
  // Its name has moved with it: what is mounted is still what was handed.
  EXPECT_EQ(apart(host_.isolation,
                  [&] {
                    leave_file_system(host_.isolation, std::array{kept.get()});
                    require(::openat(kept.get(), "passwd", O_RDONLY | O_CLOEXEC) < 0, "/etc");
                  }),
            "");
  sys::remove_tree(scratch_.path() + "/elsewhere");
  EXPECT_NE(
      apart(host_.isolation, [&] { leave_file_system(host_.isolation, std::array{kept.get()}); }),
      "");
}

TEST_F(Jail, ProcessThatWasNotSetApartKeepsTheRootAndSaysSo) {
  const std::string said =
      sys::try_in_child({}, [&] { leave_file_system(host_.isolation, {}); }).value_or("");
  EXPECT_NE(said.find("not the first of a pid namespace"), std::string::npos) << said;
  EXPECT_TRUE(sys::exists("/proc/self"));
}

TEST_F(Jail, EndsWithItsParent) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const sys::Fd reading(ends[0]);
  sys::Fd writing(ends[1]);
  // Process 1 of a namespace starts process 1 of one below, which holds the pipe, and ends.
  EXPECT_EQ(apart(host_.isolation,
                  [&] {
                    sys::SpawnOptions options;
                    options.argv = {"/bin/sleep", "1000"};
                    options.fds = {{writing.get(), 5}};
                    set_apart(options, host_.isolation, Network::Empty);
                    sys::spawn(options);
                  }),
            "");
  writing.reset();
  char byte = 0;
  EXPECT_EQ(::read(reading.get(), &byte, 1), 0) << "nobody holds the pipe any more";
}

// Stage 3 alone, as on a host without namespaces.
static std::string without_rights(const Rights& rights, const std::function<void()>& body) {
  return sys::try_in_child({},
                           [&] {
                             give_up_rights(rights);
                             body();
                           })
      .value_or("");
}

TEST(JailRights, NoCapabilityIsLeftOrToBeHad) {
  EXPECT_EQ(without_rights({.limits = kLimits, .writable = {}},
                           [] {
                             require(::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "privileges");
                             for (int number = 0; number < 64; ++number)
                               if (::geteuid() == 0)
                                 require(::prctl(PR_CAPBSET_READ, number, 0, 0, 0) <= 0, "bounds");
                             require(::sethostname("x", 1) != 0 && errno == EPERM, "a host name");
                             require(::chroot("/") != 0 && errno == EPERM, "chroot");
                           }),
            "");
}

TEST(JailRights, LimitsHoldAndStay) {
  EXPECT_EQ(
      without_rights(
          {.limits = {.files = 64, .file_size = 4096, .locked = 0, .processes = 0}, .writable = {}},
          [] {
            for (const auto& [resource, value] : {std::pair{RLIMIT_NOFILE, 64},
                                                  {RLIMIT_FSIZE, 4096},
                                                  {RLIMIT_CORE, 0},
                                                  {RLIMIT_MEMLOCK, 0},
                                                  {RLIMIT_NPROC, 0}}) {
              rlimit now{};
              require(::getrlimit(resource, &now) == 0, "reading");
              require(now.rlim_cur == static_cast<rlim_t>(value) &&
                          now.rlim_max == static_cast<rlim_t>(value),
                      "limit " + std::to_string(resource));
              const rlimit more{now.rlim_max + 1, now.rlim_max + 1};
              require(::setrlimit(resource, &more) != 0 && errno == EPERM, "raising");
            }
            const sys::Fd file(::memfd_create("x", MFD_CLOEXEC));
            require(::pwrite(file.get(), "x", 1, 4096) < 0 && errno == EFBIG,
                    "a write past the limit is an error");
            require(::prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0, "no core dump");
          }),
      "");
}

TEST(JailRights, LandlockLeavesNothingButTheDirectory) {
  if (probe_host().landlock_abi == 0) GTEST_SKIP() << "this kernel has no Landlock";
  const sys::TempDir scratch;
  const std::string inner = scratch.path() + "/inner";
  sys::make_directories(inner);
  sys::write_file_atomic(inner + "/there", as_bytes("x"));
  const sys::Fd directory = sys::open_file(inner, O_PATH | O_DIRECTORY);
  EXPECT_EQ(
      without_rights(
          {.limits = kLimits, .writable = std::array{directory.get()}},
          [&] {
            const auto refused = [](int result, const std::string& what) {
              require(result < 0 && (errno == EACCES || errno == EXDEV), what);
            };
            refused(::open("/etc/passwd", O_RDONLY | O_CLOEXEC), "a file of the host");
            refused(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "a directory");
            refused(::mkdir((scratch.path() + "/x").c_str(), 0700), "a directory beside it");
            refused(::openat(directory.get(), "../x", O_CREAT | O_WRONLY | O_CLOEXEC, 0600),
                    "a file beside it");
            refused(::openat(directory.get(), "there", O_RDONLY | O_CLOEXEC), "reading");
            refused(::mkdirat(directory.get(), "x", 0700), "a directory in it");
            refused(::symlinkat("x", directory.get(), "link"), "a link in it");
            refused(
                ::renameat(directory.get(), "there", AT_FDCWD, (scratch.path() + "/there").c_str()),
                "moving out of it");
            require(sys::open_at(directory.get(), "new", O_CREAT | O_EXCL | O_WRONLY).get() >= 0,
                    "a new file in it");
            require(::renameat(directory.get(), "new", directory.get(), "newer") == 0,
                    "renaming in it");
            require(::unlinkat(directory.get(), "newer", 0) == 0, "removing from it");
            refused(::execl("/bin/true", "true", nullptr), "running a program");
          }),
      "");
}

TEST(JailIsolation, NamesAreReadBack) {
  for (const auto isolation : {Isolation::Full, Isolation::WithoutUser, Isolation::None})
    EXPECT_EQ(isolation_from_name(isolation_name(isolation)), isolation);
  EXPECT_FALSE(isolation_from_name(""));
  EXPECT_FALSE(isolation_from_name("Full"));
}

TEST(JailProbe, SaysWhatIsMissingExactlyWhenSomethingIs) {
  const HostSupport host = probe_host();
  EXPECT_EQ(host.missing.empty(), host.isolation == Isolation::Full && host.landlock_abi > 0);
  EXPECT_EQ(host.missing.empty(), host.way_out.empty());
}

}
