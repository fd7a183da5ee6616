// Rows in state.db, as files show them.
#include "../../../src/daemon/records.h"

#include <filesystem>
#include <fstream>

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/sys/file.h"

namespace mvm::daemon {
namespace {

constexpr const char* kValue = "value-of-nobody-elses-business";

class RecordsTest : public ::testing::Test {
 protected:
  std::string path() const { return temporary_.path() + "/state.db"; }
  static Record record(const std::string& id) {
    Record out;
    out.id = id;
    out.spec.name = id;
    out.spec.image = "base";
    out.spec.env = {{"A_NAME_OF_NOBODYS", kValue}, {"OTHER", ""}};
    out.spec.health = proto::HealthCheck{{"curl", "-H", std::string("X-Key: ") + kValue}};
    out.created_at = "2026-01-31T12:00:00Z";
    return out;
  }
  // Which of the files hold the text.
  std::vector<std::string> files_with(std::string_view text) const {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(temporary_.path())) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string data((std::istreambuf_iterator<char>(file)), {});
      if (data.find(text) != data.npos) out.push_back(entry.path().filename());
    }
    return out;
  }
  sys::TempDir temporary_;
};

TEST_F(RecordsTest, KeepEnvironmentsSealed) {
  {
    Records records(path());
    Record one = record("sb-1");
    records.insert(one);
    one.state = api::SandboxState::Running;
    records.update(one);
    EXPECT_EQ(files_with("nobody"), std::vector<std::string>());
  }
  EXPECT_EQ(files_with("nobody"), std::vector<std::string>());
  EXPECT_EQ(files_with("NOBODYS"), std::vector<std::string>());
  EXPECT_FALSE(files_with("sb-1").empty());  // the search finds what is there
  struct stat status{};
  ASSERT_EQ(::stat((path() + ".key").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  Records again(path());
  const auto loaded = again.load();
  ASSERT_EQ(loaded.size(), 1U);
  EXPECT_EQ(loaded[0].spec, record("sb-1").spec);
  EXPECT_FALSE(loaded[0].environment_lost);
}

// As versions before have left them: in the row, and what was removed in free pages.
TEST_F(RecordsTest, SealWhatStoodInTheDatabaseBefore) {
  {
    auto database = state::Database::open(path());
    constexpr std::array<std::string_view, 2> kFormer{R"(
      CREATE TABLE sandboxes (id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, spec TEXT NOT NULL,
        image_digest TEXT NOT NULL, kernel TEXT NOT NULL, state TEXT NOT NULL, pid INTEGER NOT NULL,
        process_start INTEGER NOT NULL, monitor_pid INTEGER NOT NULL, created_at TEXT NOT NULL,
        started_at TEXT NOT NULL, ended_at TEXT NOT NULL, end_reason TEXT, end_detail TEXT) STRICT;)",
                                                      R"(
      CREATE TABLE repair_action (number INTEGER PRIMARY KEY, at TEXT NOT NULL,
        action TEXT NOT NULL) STRICT;)"};
    database.migrate("sandboxes", kFormer);
    for (int i = 0; i < 40; ++i) {
      const Record one = record("sb-" + std::to_string(i));
      database
          .prepare(
              "INSERT INTO sandboxes VALUES(?, ?, ?, '', '', 'stopped', 0, 0, 0, ?, '', '',"
              " NULL, NULL)")
          .bind_all(one.id, one.id, api::encode(one.spec), one.created_at)
          .run();
    }
    database.exec("DELETE FROM sandboxes WHERE id <> 'sb-7'");
    ASSERT_FALSE(files_with("nobody").empty());
  }
  Records records(path());
  EXPECT_EQ(files_with("nobody"), std::vector<std::string>());
  const auto loaded = records.load();
  ASSERT_EQ(loaded.size(), 1U);
  EXPECT_EQ(loaded[0].spec, record("sb-7").spec);
}

// Environments have been sealed for longer than commands.
TEST_F(RecordsTest, SealCommandsThatStoodBesideSealedEnvironments) {
  Record one = record("sb-1");
  one.spec.health.reset();
  {
    Records records(path());
    records.insert(one);
    one.id = one.spec.name = "sb-2";
    records.insert(one);
  }
  {
    auto database = state::Database::open(path());
    const auto spec = [](const std::string& id) {
      Record out = record(id);
      out.spec.env.clear();
      return api::encode(out.spec);
    };
    database.prepare("UPDATE sandboxes SET spec = ? WHERE id = 'sb-1'")
        .bind_all(spec("sb-1"))
        .run();
    database.prepare("UPDATE sandboxes SET spec = ?, environment = x'00' WHERE id = 'sb-2'")
        .bind_all(spec("sb-2"))
        .run();
    database.exec("PRAGMA user_version=1");
    ASSERT_FALSE(files_with("nobody").empty());
  }
  Records records(path());
  EXPECT_EQ(files_with("nobody"), std::vector<std::string>());
  const auto loaded = records.load();
  ASSERT_EQ(loaded.size(), 2U);
  EXPECT_EQ(loaded[0].spec, record("sb-1").spec);
  EXPECT_TRUE(loaded[1].environment_lost);
  // Killed before it said so, it is begun again.
  state::Database::open(path()).exec("PRAGMA user_version=1");
  EXPECT_EQ(Records(path()).load()[0].spec, record("sb-1").spec);
}

TEST_F(RecordsTest, AnEnvironmentOfAnotherKeyOrRowIsLost) {
  {
    Records records(path());
    records.insert(record("sb-1"));
    records.insert(record("sb-2"));
  }
  {
    auto database = state::Database::open(path());
    database.exec(
        "UPDATE sandboxes SET environment = (SELECT environment FROM sandboxes WHERE id = 'sb-1')");
  }
  {
    Records records(path());
    const auto loaded = records.load();
    ASSERT_EQ(loaded.size(), 2U);
    EXPECT_FALSE(loaded[0].environment_lost);
    EXPECT_TRUE(loaded[1].environment_lost);
    EXPECT_TRUE(loaded[1].spec.env.empty());
  }
  sys::remove_file(path() + ".key");
  for (const Record& each : Records(path()).load()) EXPECT_TRUE(each.environment_lost) << each.id;
}

TEST_F(RecordsTest, AKeyThatOthersCanReadOrThatIsNoneIsRefused) {
  {
    const Records records(path());
  }
  ASSERT_EQ(::chmod((path() + ".key").c_str(), 0644), 0);
  EXPECT_THROW(Records{path()}, Error);
  sys::write_file_atomic(path() + ".key", as_bytes("short"));
  EXPECT_THROW(Records{path()}, Error);
}

}
}
