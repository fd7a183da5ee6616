// What the kernel says of the memory that values are in.
#include "mvm/secret/locked.h"

#include <algorithm>
#include <csignal>
#include <fstream>
#include <sstream>

#include <dirent.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/secret/secrets.h"
#include "mvm/sys/file.h"
#include "mvm/sys/process.h"

namespace mvm::secret {
namespace {

constexpr std::string_view kValue = "sk-locked/0123456789";

void require(bool holds, const std::string& what) {
  if (!holds) throw Error(Kind::Internal, what);
}
std::string in_child(const std::function<void()>& body) {
  return sys::try_in_child({}, body).value_or("");
}

size_t locked_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    size_t kib = 0;
    if (word == "VmLck:" && status >> kib) return kib;
  }
  return SIZE_MAX;
}

// The flags of the mapping that holds `at`: " rd wr mr mw me lo ac dd wf ".
std::string flags_of(const char* at) {
  std::ifstream maps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t from = 0;
    uintptr_t to = 0;
    char dash = 0;
    std::istringstream words(line);
    if (words >> std::hex >> from >> dash >> to && dash == '-')
      here = from <= reinterpret_cast<uintptr_t>(at) && reinterpret_cast<uintptr_t>(at) < to;
    if (here && line.starts_with("VmFlags:")) return line.substr(8) + " ";
  }
  return "";
}

proto::SecretsConfig config_of(size_t count, const std::string& value) {
  proto::SecretsConfig config;
  for (size_t i = 0; i < count; ++i) {
    proto::SecretRule rule;
    rule.name = "KEY" + std::to_string(i);
    rule.hosts = {"api.test"};
    config.rules.push_back(rule);
    config.values[rule.name] = value + std::to_string(i);
  }
  return config;
}

// Of an ordinary user: root may lock any amount.
void become_nobody(rlim_t may_lock) {
  const rlimit limit{may_lock, may_lock};
  require(::setrlimit(RLIMIT_MEMLOCK, &limit) == 0, "limiting");
  if (::geteuid() == 0) require(::setresuid(65534, 65534, 65534) == 0, "becoming nobody");
}

// The sanitizers make mlock() do nothing, and say that it has.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kLocks = false;
#else
constexpr bool kLocks = true;
#endif

TEST(LockedTest, IsInMemoryAloneAndInNoChild) {
  Locked locked;
  const std::string_view kept = locked.keep(kValue);
  EXPECT_EQ(kept, kValue);
  if (!locked.whole()) GTEST_SKIP() << "this user may lock nothing";
  const std::string flags = flags_of(kept.data());
  if (kLocks) {
    EXPECT_NE(flags.find(" lo "), std::string::npos) << flags;
  }
  for (const char* flag : {" dd ", " wf "})
    EXPECT_NE(flags.find(flag), std::string::npos) << flag << "in" << flags;
  EXPECT_EQ(in_child([&] {
              require(std::ranges::all_of(kept, [](char c) { return c == '\0'; }),
                      "a forked child has it");
            }),
            "");
}

TEST(LockedTest, TextsShareItsPages) {
  Locked locked;
  const std::string_view first = locked.keep("first");
  const std::string_view second = locked.keep("second");
  EXPECT_EQ(second.data(), first.data() + first.size());
  const std::string large(10'000, 'l');
  EXPECT_EQ(locked.keep(large), large);
  EXPECT_EQ(first, "first");
  const Locked moved = std::move(locked);
  EXPECT_EQ(second, "second");
}

// What hosts let a user lock was 64 KiB for long; what is made of a value is some times its size.
TEST(LockedTest, ManySecretsFitALowLimit) {
  if (!kLocks) GTEST_SKIP() << "nothing is locked in this build";
  EXPECT_EQ(in_child([] {
              become_nobody(65536);
              const size_t before = locked_kib();
              auto config = config_of(12, "sk-value/0123456789-0123456789-0123456789-");
              const Secrets secrets(config);
              require(secrets.locked(), "they do not fit");
              require(locked_kib() >= before + 16, "nothing is locked");
            }),
            "");
}

TEST(LockedTest, OutsideTheLimitItIsOfUseAndSaysSo) {
  if (!kLocks) GTEST_SKIP() << "nothing is locked in this build";
  EXPECT_EQ(in_child([] {
              become_nobody(0);
              auto config = config_of(1, "sk-value/0123456789");
              const Secrets secrets(config);
              require(!secrets.locked(), "it says that it is locked");
              require(secrets.all()[0].value == "sk-value/01234567890", "the value");
              require(secrets.values().find("sk-value/01234567890", 0, true).id == 0, "the finder");
              const std::string flags = flags_of(secrets.all()[0].value.data());
              require(flags.find(" lo ") == flags.npos, "locked");
              require(flags.find(" dd ") != flags.npos, "in a core dump");
            }),
            "");
}

TEST(LockedTest, IsInNoCoreDump) {
  std::ifstream pattern_file("/proc/sys/kernel/core_pattern");
  std::string pattern;
  std::getline(pattern_file, pattern);
  if (pattern.empty() || pattern[0] == '|' || pattern[0] == '/')
    GTEST_SKIP() << "cores do not go to the current directory: " << pattern;
  const sys::TempDir scratch;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit all{RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(RLIMIT_CORE, &all);
    if (::chdir(scratch.path().c_str()) != 0) ::_exit(1);
    std::string value;
    for (const char* part : {"locked", "-value-", "that-no-core-has"}) value += part;
    std::string open;
    for (const char* part : {"other", "-text-", "that-cores-have"}) open += part;
    Locked locked;
    locked.keep(value);
    wipe(value);
    std::signal(SIGABRT, SIG_DFL);
    std::abort();
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (!WCOREDUMP(status)) GTEST_SKIP() << "this host writes no cores";
  std::string core;
  DIR* const folder = ::opendir(scratch.path().c_str());
  while (const dirent* entry = ::readdir(folder))
    if (entry->d_name[0] != '.') core = scratch.path() + "/" + std::string(entry->d_name);
  ::closedir(folder);
  const std::string dump = sys::read_text_file(core, size_t{1} << 30);
  EXPECT_NE(dump.find("other-text-that-cores-have"), std::string::npos);
  EXPECT_EQ(dump.find("locked-value-that-no-core-has"), std::string::npos);
}

}
}
