#pragma once
// Appends to a log. An event is in the chain, in the kernel's hands, when append() returns; when it
// is on the disk is a matter of Sync.
//
// A writer that cannot write says so, to whoever appends and to the `on_failure` that everyone has
// to give it, and its caller then admits nothing that it could not record. It tries again by
// itself: a write that was cut short ends a file, and the next file says so.

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "mvm/audit/log.h"
#include "mvm/base/expected.h"

namespace mvm::audit {

enum class Sync : uint8_t {
  Normal,  // on the disk within WriterOptions::delay
  Strict,  // before append() returns, or before `done` is called
};

// Proof that an event was recorded. Only a Writer makes one, so what takes one cannot go ahead
// without.
class Recorded {
 private:
  friend class Writer;
  Recorded() = default;
};

struct Failure {
  std::string why;  // what failed, where, and what to do
};
using Outcome = Expected<Recorded, Failure>;

struct WriterOptions {
  Sync sync = Sync::Normal;
  Detail detail;
  std::chrono::milliseconds delay{1'000};
  uint64_t max_file = uint64_t{16} << 20;  // a new file begins beyond it
  uint64_t max_log = uint64_t{1} << 30;    // all files; beyond it nothing is recorded any more
  uint64_t checkpoint_records = 1'000;
  std::chrono::milliseconds checkpoint_time{30'000};
  // Between two tries of a writer that failed.
  std::chrono::milliseconds retry{1'000};
  size_t max_held = 4'096;  // events that happened while it could not write
};

class Writer {
 public:
  // Called when writing fails, with the reason, and with nothing when it works again; on the thread
  // that found out, and with no lock of the writer's held.
  using OnFailure = std::function<void(const std::optional<Failure>&)>;
  using Done = std::function<void(const Outcome&)>;
  // A checkpoint or a closing record is written: the line.
  using OnSigned = std::function<void(std::string_view)>;

  Writer(Session session, WriterOptions options, OnFailure on_failure, OnSigned on_signed = {});
  ~Writer();  // ends the thread; does not close the log
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Starts the thread that syncs beside the callers and sets checkpoints when their time has come.
  // Without it syncs happen in append(), and in Sync::Normal when the delay is over and an event
  // comes. `on_start` is called on the thread first: it confines it.
  void start(std::function<void()> on_start = {});

  // From any thread. In Sync::Strict it waits for the disk.
  [[nodiscard]] Outcome append(const Event& event);
  // The same without waiting: `done` is called once, in Sync::Normal or with a failure before this
  // returns, else on the writer's thread.
  void append(const Event& event, Done done);
  // Of what has happened and cannot be refused any more. True when it is on record. Else it is
  // held, and recorded with its own time, before anything else, once that can be done; beyond
  // max_held it is counted, as what append() fails to record is.
  bool note(const Event& event);
  // The same for several events: they go to the kernel in one write with commit(), or before what
  // append() or note() is given next. What has happened already is held as note() holds it.
  enum class Of : uint8_t { WhatMayBeRefused, WhatHasHappened };
  void defer(Event event, Of of);
  // Of what may be refused: only that; what has happened waits for another call. In Sync::Strict
  // all of it, and it waits for the disk. A failure: of those that may be refused one could not be
  // recorded, or none can be.
  [[nodiscard]] Outcome commit(Of of = Of::WhatHasHappened);
  // Tries again, as append() would, if the time for that has come.
  void retry();

  // The closing record, signed. Nothing can be appended afterwards. With a failure the log stays
  // unclosed, which the daemon sees. Does not wait for the disk in Sync::Normal.
  [[nodiscard]] Outcome close();

  Head head() const;

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;
  using Result = std::optional<Failure>;  // nothing: it worked

  struct Lines {
    std::string bytes;
    std::vector<size_t> ends;      // of each, with its line feed
    std::vector<Position> behind;  // each
  };
  // With mutex_ held.
  Result record(const Event& event, Time time);
  bool deferred(Of of) const;
  Result record_deferred(Of of, const Event* then, Time time);
  // `done`: how many of them are recorded.
  Result write_events(std::span<const Event* const> events, Time time, size_t& done);
  Lines lines_of(std::span<const Event* const> events, Time time);
  Result write_lines(const Lines& lines, size_t& done);
  bool hold(const Event& event, Time time);
  Result resume();
  Result write_signed(const LogRecord& record);
  Result next_file();
  Result fail(std::string why, bool for_good);
  void set_checkpoint_if_due();
  bool dirty() const { return on_disk_ < written_; }
  Clock::time_point sync_time() const;
  // With mutex_ held, but not while they wait.
  Result sync(Lock& lock);
  Result await_disk(Lock& lock, uint64_t ticket);
  // Tells what there is to tell, with the mutex free.
  void tell(Lock& lock);
  void run();

  const LogId log_;
  const WriterOptions options_;
  const OnFailure on_failure_;
  const OnSigned on_signed_;

  mutable std::mutex mutex_;        // guards what follows
  std::condition_variable work_;    // for the thread
  std::condition_variable synced_;  // for those who wait for the disk
  sys::Fd directory_;
  std::shared_ptr<sys::Fd> file_;
  std::vector<std::shared_ptr<sys::Fd>> left_;  // former files with bytes that are not on the disk
  crypto::SigningKey key_;
  crypto::Sha256 line_hash_;
  Position next_;
  uint64_t number_;
  uint64_t file_size_ = 0;
  uint64_t log_size_;
  // What failed writes left behind the last whole line.
  uint64_t torn_bytes_ = 0;
  crypto::Sha256 torn_hash_;
  uint64_t missed_ = 0;  // events that could not be recorded, and that no record tells of yet
  uint64_t since_checkpoint_ = 0;
  Clock::time_point last_checkpoint_ = Clock::now();
  struct Held {
    Event event;
    Time time;
  };
  std::deque<Held> held_;         // while failure_ is set
  std::vector<Event> refusable_;  // deferred
  std::vector<Event> happened_;   // likewise
  Result deferred_failure_;       // of what may be refused, until commit() says so
  Result failure_;
  bool for_good_ = false;
  bool disk_failed_ = false;  // a sync did, which is for good
  bool closed_ = false;
  Clock::time_point retry_at_;
  uint64_t written_ = 0;  // lines; each one's number is its ticket
  uint64_t on_disk_ = 0;
  Clock::time_point dirty_since_;
  struct Waiting {
    uint64_t ticket;
    Done done;
  };
  std::vector<Waiting> waiting_;
  std::vector<std::function<void()>> news_;
  bool started_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}
