#include "mvm/state/database.h"

#include <array>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::state {
namespace {

using ::testing::HasSubstr;

class DatabaseTest : public ::testing::Test {
 protected:
  std::string path() const { return scratch_.path() + "/state.db"; }
  sys::TempDir scratch_;
};

template <typename Body>
Error error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {Kind::Internal, ""};
}

TEST_F(DatabaseTest, KeepsEveryTypeOfValue) {
  Database database = Database::open(path());
  database.exec("CREATE TABLE t(i INTEGER, s TEXT, b BLOB, n TEXT)");
  const Bytes blob{std::byte{0}, std::byte{255}, std::byte{7}};
  const std::string text("nul\0inside", 10);
  database.prepare("INSERT INTO t VALUES(?, ?, ?, ?)")
      .bind_all(int64_t{-5}, std::string_view(text), ByteView(blob), nullptr)
      .run();
  EXPECT_EQ(database.changes(), 1);
  Statement read = database.prepare("SELECT i, s, b, n FROM t");
  ASSERT_TRUE(read.step());
  EXPECT_EQ(read.integer(0), -5);
  EXPECT_EQ(read.text(1), text);
  EXPECT_EQ(read.blob(2), blob);
  EXPECT_TRUE(read.is_null(3));
  EXPECT_EQ(read.optional_text(3), std::nullopt);
  EXPECT_FALSE(read.step());
}

TEST_F(DatabaseTest, AnEmptyTextIsNotNull) {
  Database database = Database::open(path());
  database.exec("CREATE TABLE t(s TEXT NOT NULL, b BLOB NOT NULL)");
  database.prepare("INSERT INTO t VALUES(?, ?)").bind_all(std::string_view(), ByteView()).run();
  Statement read = database.prepare("SELECT s, b FROM t");
  ASSERT_TRUE(read.step());
  EXPECT_EQ(read.optional_text(0), "");
  EXPECT_FALSE(read.is_null(1));
}

TEST_F(DatabaseTest, TheFileIsPrivateWhateverTheUmask) {
  const mode_t old = ::umask(0);
  Database database = Database::open(path());
  database.exec("CREATE TABLE t(i)");
  ::umask(old);
  struct stat status{};
  for (const char* suffix : {"", "-wal", "-shm"}) {
    ASSERT_EQ(::stat((path() + suffix).c_str(), &status), 0) << suffix;
    EXPECT_EQ(status.st_mode & 0777U, 0600U) << suffix;
  }
}

TEST_F(DatabaseTest, ADuplicateKeyIsAConflictAndTheStatementStaysUsable) {
  Database database = Database::open(path());
  database.exec("CREATE TABLE t(name TEXT PRIMARY KEY, age INTEGER CHECK(age > 0))");
  Statement insert = database.prepare("INSERT INTO t VALUES(?, ?)");
  insert.bind_all("a", int64_t{1}).run();
  const Error error = error_of([&] { insert.bind_all("a", int64_t{1}).run(); });
  EXPECT_EQ(error.kind(), Kind::Conflict);
  EXPECT_THAT(error.message(), HasSubstr(path()));
  EXPECT_EQ(error_of([&] { insert.bind_all("b", int64_t{0}).run(); }).kind(), Kind::Invalid);
  insert.bind_all("b", int64_t{1}).run();
  Statement count = database.prepare("SELECT count(*) FROM t");
  ASSERT_TRUE(count.step());
  EXPECT_EQ(count.integer(0), 2);
}

TEST_F(DatabaseTest, ForeignKeysAreEnforced) {
  Database database = Database::open(path());
  database.exec("CREATE TABLE a(id INTEGER PRIMARY KEY); CREATE TABLE b(a REFERENCES a(id))");
  EXPECT_EQ(error_of([&] { database.exec("INSERT INTO b VALUES(7)"); }).kind(), Kind::Invalid);
}

TEST_F(DatabaseTest, WhatIsNotCommittedIsRolledBack) {
  Database database = Database::open(path());
  database.exec("CREATE TABLE t(i)");
  {
    Transaction transaction(database);
    database.exec("INSERT INTO t VALUES(1)");
  }
  {
    Transaction transaction(database);
    database.exec("INSERT INTO t VALUES(2)");
    transaction.commit();
  }
  Statement read = database.prepare("SELECT i FROM t");
  ASSERT_TRUE(read.step());
  EXPECT_EQ(read.integer(0), 2);
  EXPECT_FALSE(read.step());
}

TEST_F(DatabaseTest, AKilledProcessLosesNothingThatWasCommitted) {
  {
    Database::open(path()).exec("CREATE TABLE t(i)");
  }
  const pid_t child = ::fork();
  if (child == 0) {
    Database database = Database::open(path());
    database.exec("INSERT INTO t VALUES(1)");
    Transaction transaction(database);
    database.exec("INSERT INTO t VALUES(2)");
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  Database database = Database::open(path());
  Statement sum = database.prepare("SELECT sum(i) FROM t");
  ASSERT_TRUE(sum.step());
  EXPECT_EQ(sum.integer(0), 1);
}

TEST_F(DatabaseTest, ConcurrentWritersWaitForEachOther) {
  {
    Database::open(path()).exec("CREATE TABLE t(i INTEGER); INSERT INTO t VALUES(0)");
  }
  const auto add = [&] {
    Database database = Database::open(path());
    for (int i = 0; i < 50; ++i) {
      Transaction transaction(database);
      Statement read = database.prepare("SELECT i FROM t");
      ASSERT_TRUE(read.step());
      const int64_t value = read.integer(0);
      read.reset();
      database.prepare("UPDATE t SET i = ?").bind_all(value + 1).run();
      transaction.commit();
    }
  };
  std::thread one(add);
  std::thread two(add);
  one.join();
  two.join();
  Database database = Database::open(path());
  Statement read = database.prepare("SELECT i FROM t");
  ASSERT_TRUE(read.step());
  EXPECT_EQ(read.integer(0), 100);
}

TEST_F(DatabaseTest, ManyMayCreateTheFileAtOnce) {
  std::vector<std::thread> threads;
  for (int64_t n = 0; n < 8; ++n)
    threads.emplace_back([&, n] {
      Database database = Database::open(path());
      constexpr std::array<std::string_view, 1> steps{"CREATE TABLE t(i)"};
      database.migrate("one", steps);
      database.prepare("INSERT INTO t VALUES(?)").bind_all(n).run();
    });
  for (std::thread& thread : threads) thread.join();
  Database database = Database::open(path());
  Statement count = database.prepare("SELECT count(*) FROM t");
  ASSERT_TRUE(count.step());
  EXPECT_EQ(count.integer(0), 8);
}

constexpr std::array<std::string_view, 1> kFirst{"CREATE TABLE t(i); INSERT INTO t VALUES(1)"};
constexpr std::array<std::string_view, 2> kSecond{kFirst[0], "ALTER TABLE t ADD COLUMN j"};
constexpr std::array<std::string_view, 1> kOther{"CREATE TABLE u(i)"};

TEST_F(DatabaseTest, MigratesEachComponentFromWhereItStands) {
  {
    Database database = Database::open(path());
    database.migrate("one", kFirst);
    database.migrate("two", kOther);
  }
  Database database = Database::open(path());
  database.migrate("one", kSecond);
  database.migrate("one", kSecond);
  database.migrate("two", kOther);
  Statement read = database.prepare("SELECT count(*), count(j) FROM t");
  ASSERT_TRUE(read.step());
  EXPECT_EQ(read.integer(0), 1);
  EXPECT_EQ(read.integer(1), 0);
}

TEST_F(DatabaseTest, AFailedMigrationChangesNothing) {
  Database database = Database::open(path());
  constexpr std::array<std::string_view, 2> broken{kFirst[0], "no SQL at all"};
  EXPECT_THROW(database.migrate("one", broken), Error);
  database.migrate("one", kFirst);
  Statement read = database.prepare("SELECT count(*) FROM t");
  ASSERT_TRUE(read.step());
  EXPECT_EQ(read.integer(0), 1);
}

TEST_F(DatabaseTest, AFileOfANewerProgramIsLeftAloneAndSaysSo) {
  Database database = Database::open(path());
  database.migrate("one", kSecond);
  const Error error = error_of([&] { database.migrate("one", kFirst); });
  EXPECT_EQ(error.kind(), Kind::Unsupported);
  EXPECT_THAT(error.message(), HasSubstr(path()));
  EXPECT_THAT(error.message(), HasSubstr("newer mvm"));
}

TEST_F(DatabaseTest, ADamagedFileIsNamedWithTheWayOut) {
  sys::write_file_atomic(path(), Bytes(8192, std::byte{'x'}));
  const Error error = error_of([&] { Database::open(path()); });
  EXPECT_EQ(error.kind(), Kind::Internal);
  EXPECT_THAT(error.message(), HasSubstr(path()));
  EXPECT_THAT(error.message(), HasSubstr("move it away"));
}

TEST_F(DatabaseTest, ADamagedPageIsReportedWhenItIsRead) {
  {
    Database database = Database::open(path());
    database.exec("CREATE TABLE t(s)");
    Statement insert = database.prepare("INSERT INTO t VALUES(?)");
    for (int i = 0; i < 100; ++i) insert.bind_all(std::string_view(std::string(1000, 'a'))).run();
  }
  const sys::Fd fd = sys::open_file(path(), O_RDWR);
  ASSERT_GT(sys::file_size(fd.get()), 3 * 4096U);  // closing checkpoints the log into the file
  sys::pwrite_all(fd.get(), Bytes(4096, std::byte{0xff}), 4096);
  const Error error = error_of([&] {
    Database database = Database::open(path());
    Statement read = database.prepare("SELECT sum(length(s)) FROM t");
    read.step();
  });
  EXPECT_THAT(error.message(), HasSubstr("damaged"));
}

TEST_F(DatabaseTest, AnotherProgramsFileIsRefusedUntouched) {
  {
    Database database = Database::open(path());
    database.exec("CREATE TABLE t(i); PRAGMA application_id=42");
  }
  const Error error = error_of([&] { Database::open(path()); });
  EXPECT_EQ(error.kind(), Kind::Invalid);
  EXPECT_THAT(error.message(), HasSubstr("another program's"));
}

TEST_F(DatabaseTest, ASymbolicLinkIsNotFollowed) {
  ASSERT_EQ(::symlink("/etc/hostname", path().c_str()), 0);
  EXPECT_THROW(Database::open(path()), Error);
}

TEST_F(DatabaseTest, AMissingDirectoryIsOneClearError) {
  const Error error = error_of([&] { Database::open(scratch_.path() + "/none/state.db"); });
  EXPECT_EQ(error.kind(), Kind::Denied);
  EXPECT_THAT(error.message(), HasSubstr("/none/state.db"));
}

TEST_F(DatabaseTest, WrongSqlNamesItself) {
  Database database = Database::open(path());
  EXPECT_THAT(error_of([&] { database.prepare("SELECT * FROM nowhere"); }).message(),
              HasSubstr("nowhere"));
}

}
}
