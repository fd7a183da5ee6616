#include "records.h"

#include <array>
#include <utility>

namespace mvm::daemon {

static constexpr std::array<std::string_view, 3> kSteps{R"(
  CREATE TABLE sandboxes (
    id            TEXT PRIMARY KEY,
    name          TEXT NOT NULL UNIQUE,
    spec          TEXT NOT NULL,
    image_digest  TEXT NOT NULL,
    kernel        TEXT NOT NULL,
    state         TEXT NOT NULL,
    pid           INTEGER NOT NULL,
    process_start INTEGER NOT NULL,
    monitor_pid   INTEGER NOT NULL,
    created_at    TEXT NOT NULL,
    started_at    TEXT NOT NULL,
    ended_at      TEXT NOT NULL,
    end_reason    TEXT,
    end_detail    TEXT
  ) STRICT;
)",
                                                        R"(
  CREATE TABLE repair_action (
    number INTEGER PRIMARY KEY,
    at     TEXT NOT NULL,
    action TEXT NOT NULL
  ) STRICT;
)",
                                                        R"(
  ALTER TABLE sandboxes ADD COLUMN environment BLOB;
)"};

// What the database may show: all but the environment and commands.
static std::string shown_spec(const api::SandboxSpec& spec) {
  api::SandboxSpec out = spec;
  out.env.clear();
  if (out.health) out.health->command.clear();
  return api::encode(out);
}

static Sealed sealed_of(const api::SandboxSpec& spec) {
  return {spec.env, spec.health ? spec.health->command : std::vector<std::string>()};
}

static void put_back(api::SandboxSpec& spec, Sealed sealed) {
  spec.env = std::move(sealed.env);
  if (spec.health) spec.health->command = std::move(sealed.health);
}

void refuse_taken_name(const std::string& name) {
  throw api::ApiError(Kind::Conflict, "sandbox " + name + " exists already",
                      "use another name, or remove it with: mvm rm " + name);
}

Records::Records(const std::string& path)
    : database_(state::Database::open(path)), seal_(path + ".key") {
  database_.migrate("sandboxes", kSteps);
  seal_former();
}

// Environments were a part of the spec until version 3, and commands until this user_version. They
// leave the rows, and then what is left of the rows in the file's free pages and in its log. Killed
// in between, it is begun again.
void Records::seal_former() {
  constexpr int64_t kAllSealed = 2;
  auto version = database_.prepare("PRAGMA user_version");
  if (version.step() && version.integer(0) >= kAllSealed) return;
  version.reset();
  {
    struct Former {
      std::string id;
      std::string spec;
      std::optional<Bytes> sealed;
    };
    state::Transaction transaction(database_);
    std::vector<Former> all;
    auto rows = database_.prepare("SELECT id, spec, environment FROM sandboxes");
    while (rows.step())
      all.push_back({rows.text(0), rows.text(1),
                     rows.is_null(2) ? std::nullopt : std::optional(rows.blob(2))});
    auto update =
        database_.prepare("UPDATE sandboxes SET spec = ?2, environment = ?3 WHERE id = ?1");
    for (const Former& row : all) {
      const auto spec = while_doing("reading the record of sandbox " + row.id,
                                    [&] { return api::decode_spec(row.spec); });
      Sealed sealed = sealed_of(spec);
      const auto before = row.sealed ? seal_.open(row.id, *row.sealed) : std::nullopt;
      if (before) sealed.env = before->env;
      if (before && sealed.health.empty()) sealed.health = before->health;  // begun again
      // One that does not open is lost, and stays so.
      const Bytes blob = row.sealed && !before ? *row.sealed : seal_.seal(row.id, sealed);
      update.bind(1, row.id).bind(2, shown_spec(spec)).bind(3, ByteView(blob)).run();
    }
    transaction.commit();
  }
  database_.exec("VACUUM; PRAGMA wal_checkpoint(TRUNCATE); PRAGMA user_version=2");
}

std::vector<Record> Records::load() {
  const std::lock_guard lock(mutex_);
  auto rows = database_.prepare(
      "SELECT id, spec, image_digest, kernel, state, pid, process_start, monitor_pid, created_at,"
      " started_at, ended_at, end_reason, end_detail, environment FROM sandboxes"
      " ORDER BY created_at, id");
  std::vector<Record> records;
  while (rows.step()) {
    Record record;
    record.id = rows.text(0);
    record.spec = while_doing("reading the record of sandbox " + record.id,
                              [&] { return api::decode_spec(rows.text(1)); });
    if (auto sealed = seal_.open(record.id, rows.blob(13)))
      put_back(record.spec, std::move(*sealed));
    else
      record.environment_lost = true;
    record.image_digest = rows.text(2);
    record.kernel = rows.text(3);
    record.state = api::state_from_name(rows.text(4)).value_or(api::SandboxState::Failed);
    record.pid = rows.integer(5);
    record.process_start = static_cast<uint64_t>(rows.integer(6));
    record.monitor_pid = rows.integer(7);
    record.created_at = rows.text(8);
    record.started_at = rows.text(9);
    record.ended_at = rows.text(10);
    if (!rows.is_null(11)) {
      const auto reason = proto::end_reason_from_name(rows.text(11));
      record.end = api::End{reason.value_or(proto::EndReason::HostFault), rows.text(12)};
    }
    records.push_back(std::move(record));
  }
  return records;
}

static void bind_state(state::Statement& statement, const Record& record) {
  statement.bind(1, record.id)
      .bind(2, api::state_name(record.state))
      .bind(3, record.pid)
      .bind(4, static_cast<int64_t>(record.process_start))
      .bind(5, record.monitor_pid)
      .bind(6, record.started_at)
      .bind(7, record.ended_at);
  if (record.end) {
    statement.bind(8, proto::end_reason_name(record.end->reason)).bind(9, record.end->detail);
  } else {
    statement.bind(8, nullptr).bind(9, nullptr);
  }
}

void Records::insert(const Record& record) {
  MVM_ASSERT(record.spec.secret_values.empty());  // nothing is stored that would show them
  const std::lock_guard lock(mutex_);
  auto statement = database_.prepare(
      "INSERT INTO sandboxes (id, state, pid, process_start, monitor_pid, started_at, ended_at,"
      " end_reason, end_detail, name, spec, image_digest, kernel, created_at, environment)"
      " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)");
  bind_state(statement, record);
  statement.bind(10, record.name())
      .bind(11, shown_spec(record.spec))
      .bind(12, record.image_digest)
      .bind(13, record.kernel)
      .bind(14, record.created_at)
      .bind(15, ByteView(seal_.seal(record.id, sealed_of(record.spec))));
  try {
    statement.run();
  } catch (const Error& error) {
    if (error.kind() != Kind::Conflict) throw;
    refuse_taken_name(record.name());
  }
}

void Records::update(const Record& record) {
  const std::lock_guard lock(mutex_);
  auto statement = database_.prepare(
      "UPDATE sandboxes SET state = ?2, pid = ?3, process_start = ?4, monitor_pid = ?5,"
      " started_at = ?6, ended_at = ?7, end_reason = ?8, end_detail = ?9, spec = ?10"
      " WHERE id = ?1");
  bind_state(statement, record);
  statement.bind(10, shown_spec(record.spec));
  statement.run();
}

void Records::remove(const std::string& id) {
  const std::lock_guard lock(mutex_);
  database_.prepare("DELETE FROM sandboxes WHERE id = ?1").bind(1, id).run();
}

void Records::keep_repair(const api::Repair& repair) {
  const std::lock_guard lock(mutex_);
  state::Transaction transaction(database_);
  database_.exec("DELETE FROM repair_action");
  auto insert = database_.prepare("INSERT INTO repair_action (at, action) VALUES (?1, ?2)");
  for (const std::string& action : repair.actions) insert.bind(1, repair.at).bind(2, action).run();
  transaction.commit();
}

std::optional<api::Repair> Records::last_repair() {
  const std::lock_guard lock(mutex_);
  auto rows = database_.prepare("SELECT at, action FROM repair_action ORDER BY number");
  api::Repair repair;
  while (rows.step()) {
    repair.at = rows.text(0);
    repair.actions.push_back(rows.text(1));
  }
  if (repair.actions.empty()) return std::nullopt;
  return repair;
}

}
