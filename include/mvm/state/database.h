#pragma once
// Durable state: SQLite behind a small wall. Nothing outside src/state sees sqlite3.h, and every
// failure is an mvm::Error that names the file and what was being done.
//
// A Database and what it hands out belong to one thread. Another thread, or another process, opens
// its own: connections to one file wait for each other (kBusyTimeout), and readers never wait.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "mvm/base/bytes.h"
#include "mvm/base/error.h"

namespace mvm::state {

// The file is damaged or no database at all.
class Damaged : public Error {
 public:
  explicit Damaged(std::string message) : Error(Kind::Internal, std::move(message)) {}
};

// How long a write waits for another connection's write before it is Unavailable.
inline constexpr std::chrono::milliseconds kBusyTimeout{10'000};

// What a committed transaction survives. ProcessCrash costs no fsync a commit: kill -9 loses
// nothing, a power failure may lose the last commits (never the consistency).
enum class Durability { ProcessCrash, PowerLoss };

// One prepared SQL statement. Parameters are counted from 1, columns from 0, as in SQLite.
// Must not outlive its Database.
class Statement {
 public:
  ~Statement();
  Statement(Statement&&) noexcept;
  Statement& operator=(Statement&&) noexcept;

  Statement& bind(int parameter, int64_t value);
  Statement& bind(int parameter, std::string_view text);
  Statement& bind(int parameter, const char* text) {
    return bind(parameter, std::string_view(text));
  }
  Statement& bind(int parameter, ByteView blob);
  Statement& bind(int parameter, std::nullptr_t);
  template <typename T>
  Statement& bind(int parameter, const std::optional<T>& value) {
    return value ? bind(parameter, *value) : bind(parameter, nullptr);
  }
  // bind(1, first), bind(2, second), ...
  template <typename... Values>
  Statement& bind_all(const Values&... values) {
    int parameter = 0;
    (bind(++parameter, values), ...);
    return *this;
  }

  // True: there is a row to read. False: it is done, and ready to be bound and run again.
  // A violated UNIQUE or PRIMARY KEY is Conflict, any other violated constraint Invalid.
  bool step();
  // For statements without rows.
  void run();
  // Makes it ready again before its last row was read. Bindings stay.
  void reset();

  // The current row. A NULL reads as 0 or as empty.
  int64_t integer(int column) const;
  std::string text(int column) const;
  Bytes blob(int column) const;
  bool is_null(int column) const;
  std::optional<int64_t> optional_integer(int column) const;
  std::optional<std::string> optional_text(int column) const;

 private:
  friend class Database;
  struct Impl;
  explicit Statement(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class Database {
 public:
  // Opens or creates the file (mode 0600; its directory must exist) with write-ahead logging and
  // foreign keys on. A file that is damaged or not mvm's is one clear error that names it and the
  // way out.
  static Database open(const std::string& path, Durability durability = Durability::ProcessCrash);
  ~Database();
  Database(Database&&) noexcept;
  Database& operator=(Database&&) noexcept;

  // Runs one or several statements without parameters or rows.
  void exec(std::string_view sql);
  Statement prepare(std::string_view sql);

  // Reads all of the file; throws Damaged.
  void check();

  int64_t last_insert_id() const;
  int64_t changes() const;  // rows that the last INSERT, UPDATE or DELETE touched

  // Brings the tables of one component to the newest version: steps[n] takes them from version n
  // to n + 1, and each runs once in the life of the file, all in one transaction. Several
  // components keep their tables in one file; each has its own version. A file written by a newer
  // mvm (more steps than we know) is Unsupported.
  void migrate(std::string_view component, std::span<const std::string_view> steps);

  const std::string& path() const;

 private:
  friend class Statement;
  struct Impl;
  explicit Database(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// BEGIN IMMEDIATE ... COMMIT; whatever was not committed is rolled back. The write lock is taken at
// the start, so that a transaction that reads first and writes later cannot fail half-way as busy.
class Transaction {
 public:
  explicit Transaction(Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Database* database_;
  bool open_ = true;
};

}
