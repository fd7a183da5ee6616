// SQLite's C interface ends in this file. Result codes become kinds that a caller can act on:
// a duplicate key is Conflict, a locked file Unavailable, a full disk Exhausted, a damaged file an
// Internal error with the way out.

#include "mvm/state/database.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <sqlite3.h>

#include "mvm/base/error.h"
#include "mvm/base/scope_exit.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

namespace mvm::state {

// "mvm" and a version of the container, not of any table: a file with another application_id
// belongs to somebody else and is left alone.
static constexpr int64_t kApplicationId = 0x6d766d31;

struct Database::Impl {
  explicit Impl(std::string file) : path(std::move(file)) {}
  ~Impl() { sqlite3_close_v2(handle); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  [[noreturn]] void fail(std::string_view doing) const {
    fail(sqlite3_extended_errcode(handle), sqlite3_errmsg(handle), doing);
  }
  [[noreturn]] void fail(int code, std::string_view message, std::string_view doing) const {
    std::string text = path + ": " + std::string(doing) + ": " + std::string(message);
    Kind kind = Kind::Internal;
    switch (code & 0xff) {
      case SQLITE_CONSTRAINT:
        kind = code == SQLITE_CONSTRAINT_UNIQUE || code == SQLITE_CONSTRAINT_PRIMARYKEY
                   ? Kind::Conflict
                   : Kind::Invalid;
        break;
      case SQLITE_BUSY:
      case SQLITE_LOCKED:
        kind = Kind::Unavailable;
        text += "; another mvm process has been writing to it all this time";
        break;
      case SQLITE_IOERR:
        // Of its files in shared memory a full disk is no "full" to SQLite.
        if (const int why = sqlite3_system_errno(handle); why != 0)
          text += " (" + sys::errno_text(why) + ")";
        if (sqlite3_system_errno(handle) == ENOSPC) kind = Kind::Exhausted;
        break;
      case SQLITE_FULL:
      case SQLITE_NOMEM:
        kind = Kind::Exhausted;
        break;
      case SQLITE_READONLY:
      case SQLITE_PERM:
      case SQLITE_AUTH:
      case SQLITE_CANTOPEN:
        kind = Kind::Denied;
        break;
      case SQLITE_CORRUPT:
      case SQLITE_NOTADB:
        text +=
            "; the file is damaged or is no mvm state: move it away (with its -wal and -shm "
            "files) and mvm starts with an empty one; images are not in it, and disks are kept";
        throw Damaged(std::move(text));
      default:
        break;
    }
    throw Error(kind, std::move(text));
  }

  std::string path;
  sqlite3* handle = nullptr;
};

struct Statement::Impl {
  explicit Impl(Database::Impl* owner) : database(owner) {}
  ~Impl() { sqlite3_finalize(handle); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void check_bound(int code) const {
    if (code != SQLITE_OK) database->fail("binding a value");
  }

  Database::Impl* database;
  sqlite3_stmt* handle = nullptr;
};

Statement::Statement(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Statement::~Statement() = default;
Statement::Statement(Statement&&) noexcept = default;
Statement& Statement::operator=(Statement&&) noexcept = default;

Statement& Statement::bind(int parameter, int64_t value) {
  impl_->check_bound(sqlite3_bind_int64(impl_->handle, parameter, value));
  return *this;
}

Statement& Statement::bind(int parameter, std::string_view text) {
  // An empty view may hold a null pointer, which SQLite would take for NULL.
  const char* data = text.empty() ? "" : text.data();
  impl_->check_bound(sqlite3_bind_text64(impl_->handle, parameter, data, text.size(),
                                         SQLITE_TRANSIENT, SQLITE_UTF8));
  return *this;
}

Statement& Statement::bind(int parameter, ByteView blob) {
  const void* data = blob.empty() ? "" : static_cast<const void*>(blob.data());
  impl_->check_bound(
      sqlite3_bind_blob64(impl_->handle, parameter, data, blob.size(), SQLITE_TRANSIENT));
  return *this;
}

Statement& Statement::bind(int parameter, std::nullptr_t) {
  impl_->check_bound(sqlite3_bind_null(impl_->handle, parameter));
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(impl_->handle);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    sqlite3_reset(impl_->handle);
    return false;
  }
  // Reset keeps the statement usable; it returns the same code again and may overwrite the message.
  const int extended = sqlite3_extended_errcode(impl_->database->handle);
  const std::string message = sqlite3_errmsg(impl_->database->handle);
  sqlite3_reset(impl_->handle);
  const char* sql = sqlite3_sql(impl_->handle);
  impl_->database->fail(extended, message, "running \"" + std::string(sql ? sql : "") + "\"");
}

void Statement::run() {
  while (step()) {
  }
}

void Statement::reset() { sqlite3_reset(impl_->handle); }

int64_t Statement::integer(int column) const { return sqlite3_column_int64(impl_->handle, column); }

std::string Statement::text(int column) const { return std::string(as_text(blob(column))); }

Bytes Statement::blob(int column) const {
  const auto* data = static_cast<const std::byte*>(sqlite3_column_blob(impl_->handle, column));
  const auto length = static_cast<size_t>(sqlite3_column_bytes(impl_->handle, column));
  if (data == nullptr) return {};
  return {data, data + length};
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(impl_->handle, column) == SQLITE_NULL;
}

std::optional<int64_t> Statement::optional_integer(int column) const {
  if (is_null(column)) return std::nullopt;
  return integer(column);
}

std::optional<std::string> Statement::optional_text(int column) const {
  if (is_null(column)) return std::nullopt;
  return text(column);
}

Database::Database(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Database::~Database() = default;
Database::Database(Database&&) noexcept = default;
Database& Database::operator=(Database&&) noexcept = default;

static int64_t read_number(Database& database, std::string_view sql) {
  Statement statement = database.prepare(sql);
  const int64_t number = statement.step() ? statement.integer(0) : 0;
  return number;
}

constexpr std::string_view kReadApplication = "PRAGMA application_id";

// A new file becomes ours. Several processes may come here at once, and SQLite does not wait for
// others when the journal mode changes, so a lock file makes them take turns. (Never a descriptor
// of the database itself: closing it would drop SQLite's own POSIX locks on that file.)
static void make_ours(Database& database) {
  const sys::Fd lock = sys::open_own_file(database.path() + ".lock", O_RDWR | O_CREAT);
  while (::flock(lock.get(), LOCK_EX) != 0)
    if (errno != EINTR) throw SystemError(errno, "locking " + database.path());
  const int64_t application = read_number(database, kReadApplication);
  if (application == kApplicationId) return;
  if (application != 0 || read_number(database, "SELECT count(*) FROM sqlite_schema") != 0)
    throw Error(Kind::Invalid, database.path() +
                                   ": this is another program's SQLite file; move it away, or let "
                                   "MVM_DATA_DIR point elsewhere");
  // Its directory is private anyway. The log files that SQLite makes beside it get the same mode.
  sys::check(::chmod(database.path().c_str(), 0600), "setting the mode of " + database.path());
  database.exec("PRAGMA journal_mode=WAL; PRAGMA application_id=" + std::to_string(kApplicationId));
}

Database Database::open(const std::string& path, Durability durability) {
  Database database(std::make_unique<Impl>(path));
  Impl& impl = *database.impl_;
  // SQLite itself refuses symbolic links alone.
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) sys::require_own_file(path + suffix);
  // NOMUTEX: one thread for each connection is the rule here, so SQLite need not lock.
  const int code =
      sqlite3_open_v2(path.c_str(), &impl.handle,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                          SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE,
                      nullptr);
  if (code != SQLITE_OK)
    impl.fail(code, impl.handle ? sqlite3_errmsg(impl.handle) : sqlite3_errstr(code), "opening");
  sqlite3_busy_timeout(impl.handle, static_cast<int>(kBusyTimeout.count()));

  if (read_number(database, kReadApplication) != kApplicationId) make_ours(database);
  // In this order: a file that carries our id is in WAL mode already, and changes nothing here.
  database.exec("PRAGMA journal_mode=WAL; PRAGMA foreign_keys=ON; PRAGMA trusted_schema=OFF;");
  database.exec(durability == Durability::PowerLoss ? "PRAGMA synchronous=FULL"
                                                    : "PRAGMA synchronous=NORMAL");
  return database;
}

void Database::exec(std::string_view sql) {
  const std::string text(sql);
  char* message = nullptr;
  const int code = sqlite3_exec(impl_->handle, text.c_str(), nullptr, nullptr, &message);
  const std::string kept = message ? message : sqlite3_errmsg(impl_->handle);
  sqlite3_free(message);
  if (code != SQLITE_OK) impl_->fail(code, kept, "running \"" + text.substr(0, 200) + "\"");
}

Statement Database::prepare(std::string_view sql) {
  auto impl = std::make_unique<Statement::Impl>(impl_.get());
  const char* rest = nullptr;
  if (sqlite3_prepare_v3(impl_->handle, sql.data(), static_cast<int>(sql.size()), 0, &impl->handle,
                         &rest) != SQLITE_OK)
    impl_->fail("preparing \"" + std::string(sql) + "\"");
  MVM_ASSERT(impl->handle != nullptr);  // SQL is ours, never empty
  return Statement(std::move(impl));
}

int64_t Database::last_insert_id() const { return sqlite3_last_insert_rowid(impl_->handle); }
int64_t Database::changes() const { return sqlite3_changes64(impl_->handle); }
void Database::check() {
  Statement rows = prepare("PRAGMA quick_check(1)");
  if (rows.step() && rows.text(0) != "ok") impl_->fail(SQLITE_CORRUPT, rows.text(0), "checking");
}

const std::string& Database::path() const { return impl_->path; }

void Database::migrate(std::string_view component, std::span<const std::string_view> steps) {
  const auto known = static_cast<int64_t>(steps.size());
  const auto version_of = [&]() -> int64_t {
    if (read_number(*this, "SELECT count(*) FROM sqlite_schema WHERE name = 'component_version'") ==
        0)
      return 0;
    Statement version = prepare("SELECT version FROM component_version WHERE component = ?");
    version.bind(1, component);
    const int64_t number = version.step() ? version.integer(0) : 0;
    return number;
  };
  // The usual case, every open but the first: reading is enough, no write lock.
  if (version_of() == known) return;

  Transaction transaction(*this);
  const int64_t have = version_of();  // again: another process may just have done it
  if (have > known)
    throw Error(Kind::Unsupported, path() + ": written by a newer mvm (" + std::string(component) +
                                       " version " + std::to_string(have) + ", this one knows " +
                                       std::to_string(known) +
                                       "); use that mvm, or let MVM_DATA_DIR point elsewhere");
  exec(
      "CREATE TABLE IF NOT EXISTS component_version("
      "component TEXT PRIMARY KEY, version INTEGER NOT NULL) STRICT");
  for (int64_t step = have; step < known; ++step) exec(steps[static_cast<size_t>(step)]);
  Statement store = prepare("INSERT OR REPLACE INTO component_version VALUES(?, ?)");
  store.bind_all(component, known).run();
  transaction.commit();
}

Transaction::Transaction(Database& database) : database_(&database) {
  database_->exec("BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
  if (!open_) return;
  try {
    database_->exec("ROLLBACK");
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
    // SQLite has rolled back by itself (a full disk, an I/O error): there is no transaction left.
  }
}

void Transaction::commit() {
  // Stays open when COMMIT fails, so that the destructor rolls back.
  database_->exec("COMMIT");
  open_ = false;
}

}
