#include "mvm/secret/store.h"

#include <thread>

#include <linux/keyctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "mvm/base/error.h"
#include "mvm/secret/reference.h"
#include "mvm/sys/file.h"

namespace mvm::secret {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kValue = "sk-kept/0123456789";

class StoreTest : public ::testing::Test {
 protected:
  std::string path(const std::string& file) const { return directory_.path() + "/s/" + file; }
  static unsigned mode(const std::string& path) {
    struct stat status{};
    EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
    return status.st_mode & 0777;
  }
  std::string bytes(const std::string& file) const {
    return std::string(as_text(sys::read_file(path(file), 1 << 20)));
  }

  sys::TempDir directory_;
  Store store_{directory_.path() + "/s"};
};

TEST_F(StoreTest, IsEmptyBeforeAnythingIsStored) {
  EXPECT_TRUE(store_.read().empty());
  EXPECT_FALSE(store_.remove("KEY"));
  EXPECT_FALSE(sys::exists(directory_.path() + "/s"));
}

TEST_F(StoreTest, GivesBackWhatItWasGivenAndShowsNothing) {
  store_.set("KEY", {"", kValue, 1234});
  store_.set("OTHER", {"env:OTHER", "", 5678});
  const StoredMap entries = Store(directory_.path() + "/s").read();
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries.at("KEY").value, kValue);
  EXPECT_EQ(entries.at("KEY").set_at, 1234);
  EXPECT_EQ(entries.at("OTHER").from, "env:OTHER");
  EXPECT_EQ(mode(directory_.path() + "/s"), 0700U);
  EXPECT_EQ(mode(path("key")), 0600U);
  EXPECT_EQ(mode(path("values")), 0600U);
  for (const char* part : {"sk-kept", "0123456789", "KEY", "OTHER"})
    EXPECT_THAT(bytes("values"), Not(HasSubstr(part)));
}

TEST_F(StoreTest, ForgetsOneAndKeepsTheRest) {
  store_.set("KEY", {"", kValue, 1});
  store_.set("OTHER", {"", "another-value", 2});
  EXPECT_TRUE(store_.remove("KEY"));
  EXPECT_FALSE(store_.remove("KEY"));
  EXPECT_EQ(store_.read().size(), 1U);
}

TEST_F(StoreTest, SealsTheSameValuesAnotherWayEachTime) {
  store_.set("KEY", {"", kValue, 1});
  const std::string before = bytes("values");
  store_.set("KEY", {"", kValue, 1});
  EXPECT_NE(bytes("values"), before);
}

TEST_F(StoreTest, RefusesWhatWasChanged) {
  store_.set("KEY", {"", kValue, 1});
  std::string text = bytes("values");
  for (const size_t at : {size_t{0}, text.size() / 2, text.size() - 1}) {
    std::string changed = text;
    changed[at] ^= 1;
    sys::write_file_atomic(path("values"), as_bytes(changed));
    EXPECT_THROW(store_.read(), Error);
  }
  sys::write_file_atomic(path("values"), as_bytes(text));
  sys::write_file_atomic(path("key"), as_bytes(std::string(32, 'k')));
  EXPECT_THROW(store_.read(), Error);
  // It is not replaced by a new one either.
  EXPECT_THROW(store_.set("KEY", {"", kValue, 1}), Error);
  EXPECT_EQ(bytes("values"), text);
}

TEST_F(StoreTest, RefusesAKeyThatOthersCanRead) {
  store_.set("KEY", {"", kValue, 1});
  ASSERT_EQ(::chmod(path("key").c_str(), 0640), 0);
  try {
    store_.read();
    ADD_FAILURE() << "it was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Kind::Denied);
    EXPECT_THAT(error.message(), HasSubstr("chmod 600"));
  }
}

TEST_F(StoreTest, HasABound) {
  for (size_t i = 0; i < 8; ++i) store_.set("KEY_" + std::to_string(i), {"", kValue, 1});
  EXPECT_EQ(store_.read().size(), 8U);
  // At the bound itself, without so many writes.
  static_assert(Store::kMaxEntries == 256);
}

// ---- references

class References : public StoreTest {
 protected:
  std::string look_up(const std::string& from, const std::string& name = "KEY") {
    return secret::look_up(name, from, sources());
  }
  Sources sources() {
    return {[this](std::string_view name) -> std::optional<std::string> {
              const auto found = variables_.find(std::string(name));
              if (found == variables_.end()) return std::nullopt;
              return found->second;
            },
            directory_.path(), store_, patience_};
  }
  std::string failure(const std::string& from, Kind kind) {
    try {
      ADD_FAILURE() << "it gave " << look_up(from).size() << " bytes";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.message();
      return error.message();
    }
    return "";
  }
  std::map<std::string, std::string> variables_;
  std::chrono::milliseconds patience_ = std::chrono::seconds(60);
};

TEST_F(References, ToVariables) {
  variables_["OTHER"] = kValue;
  EXPECT_EQ(look_up("env:OTHER"), kValue);
  EXPECT_THAT(failure("env:MISSING", Kind::NotFound), HasSubstr("MISSING"));
}

TEST_F(References, ToNothingInParticular) {
  variables_["KEY"] = "from-the-environment";
  EXPECT_EQ(look_up(""), "from-the-environment");
  store_.set("KEY", {"", kValue, 1});
  EXPECT_EQ(look_up(""), kValue);
  EXPECT_EQ(look_up("env:KEY"), "from-the-environment");
  EXPECT_EQ(look_up("stored:KEY", "OTHER"), kValue);
  failure("stored:MISSING", Kind::NotFound);
}

TEST_F(References, ToStoredReferences) {
  variables_["OTHER"] = kValue;
  store_.set("KEY", {"env:OTHER", "", 1});
  EXPECT_EQ(look_up(""), kValue);
}

TEST_F(References, ToFiles) {
  const std::string file = directory_.path() + "/token";
  for (const char* end : {"", "\n", "\r\n"}) {
    sys::write_file_atomic(file, as_bytes(std::string(kValue) + end));
    EXPECT_EQ(look_up("file:" + file), kValue);
    EXPECT_EQ(look_up("file:token"), kValue);
  }
  variables_["HOME"] = directory_.path();
  EXPECT_EQ(look_up("file:~/token"), kValue);
  EXPECT_EQ(absolute_reference("file:token", sources()), "file:" + file);
  EXPECT_EQ(absolute_reference("env:X", sources()), "env:X");
  failure("file:missing", Kind::NotFound);
  failure("file:.", Kind::Invalid);
  sys::write_file_atomic(file, as_bytes(std::string(9000, 'x')));
  failure("file:token", Kind::Exhausted);
}

TEST_F(References, DoNotWaitForAFifo) {
  ASSERT_EQ(::mkfifo((directory_.path() + "/fifo").c_str(), 0600), 0);
  failure("file:fifo", Kind::Invalid);
}

TEST_F(References, ToCommands) {
  EXPECT_EQ(look_up("cmd:printf %s sk-kept/0123456789"), kValue);
  EXPECT_EQ(look_up("cmd:echo sk-kept/0123456789"), kValue);
  EXPECT_EQ(look_up("cmd:pwd"), directory_.path());
  const std::string failed = failure("cmd:echo sk-kept/0123456789; exit 3", Kind::Unavailable);
  EXPECT_THAT(failed, HasSubstr("exit code 3"));
  failure("cmd:head -c 100000 /dev/zero", Kind::Exhausted);
}

TEST_F(References, EndACommandThatTakesTooLong) {
  patience_ = std::chrono::milliseconds(200);
  const std::string mark = directory_.path() + "/mark";
  EXPECT_THAT(failure("cmd:echo $$ >" + mark + "; echo a; exec sleep 1000", Kind::Timeout),
              HasSubstr("did not end within"));
}

// In a session of its own, which is the thread's alone.
TEST_F(References, ToKeysOfTheSession) {
  const auto add = [](const char* type, const char* name, const std::string& value) {
    return ::syscall(SYS_add_key, type, name, value.data(), value.size(), KEY_SPEC_SESSION_KEYRING);
  };
  std::thread([&] {
    ASSERT_GT(::syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr), 0) << errno;
    failure("keyring:mvm-test", Kind::NotFound);
    ASSERT_GT(add("user", "mvm-test", kValue), 0) << errno;
    EXPECT_EQ(look_up("keyring:mvm-test"), kValue);
    ASSERT_GT(add("user", "mvm-test", std::string(kValue) + "\n"), 0);  // in its place
    EXPECT_EQ(look_up("keyring:mvm-test"), std::string(kValue) + "\n");
    failure("keyring:mvm-test-", Kind::NotFound);
    ASSERT_GT(add("user", "mvm-test-large", std::string(9000, 'x')), 0);
    failure("keyring:mvm-test-large", Kind::Exhausted);
  }).join();
  failure("keyring:mvm-test", Kind::NotFound);
}

TEST_F(References, ToKeyrings) {
  EXPECT_THAT(failure("keyring:mvm-test-that-is-not-there", Kind::NotFound), HasSubstr("keyctl"));
}

}
}
