// How an event gets to the disk: append() encodes it, chains it and writes it with one write(2),
// and commit() does so with all that were deferred, so that a writer that is killed afterwards has
// lost nothing. fdatasync(2) follows beside it, on the writer's thread, and covers all that was
// written until then: callers that wait share one.
//
// A write that fails may have left a part of a line. The file is then left as it is, and the next
// one's first record tells of that part. A disk that was full for a while thus costs the events of
// that while that the caller had to refuse; they are counted (`missed`). What had happened already
// waits in memory, up to a bound.
#include "mvm/audit/writer.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

#include "outcome.h"

namespace mvm::audit {

// Beyond WriterOptions::max_log, for records of the log itself.
static constexpr uint64_t kReserve = 64 * 1024;

Writer::Writer(Session session, WriterOptions options, OnFailure on_failure, OnSigned on_signed)
    : log_(std::move(session.log)),
      options_(options),
      on_failure_(std::move(on_failure)),
      on_signed_(std::move(on_signed)),
      directory_(std::move(session.directory)),
      file_(std::make_shared<sys::Fd>(std::move(session.file))),
      key_(std::move(session.key)),
      next_(session.next),
      number_(session.number),
      file_size_(session.file_size),
      log_size_(session.size) {
  MVM_ASSERT(on_failure_);
  // The first record is not known to be on the disk; and the library has made itself ready before
  // the caller shuts itself in.
  written_ = 1;
  dirty_since_ = Clock::now();
  const auto ready = key_.sign({});
  MVM_ASSERT(crypto::verify(key_.public_key(), {}, ready));
}

Writer::~Writer() {
  std::vector<Waiting> waiting;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    waiting.swap(waiting_);
  }
  work_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (const Waiting& each : waiting)
    each.done(
        outcome_of(Failure{"the audit log's writer ended before the record was on the disk"}));
}

void Writer::start(std::function<void()> on_start) {
  const std::lock_guard lock(mutex_);
  MVM_ASSERT(!started_);
  thread_ = std::thread([this, on_start = std::move(on_start)] {
    if (on_start) on_start();
    run();
  });
  started_ = true;
}

// ---- events ---------------------------------------------------------------------------------

Outcome Writer::append(const Event& event) {
  Lock lock(mutex_);
  Result failure = record(event, std::chrono::system_clock::now());
  if (!failure && (options_.sync == Sync::Strict || (!started_ && Clock::now() >= sync_time())))
    failure = await_disk(lock, written_);
  tell(lock);
  if (failure) return outcome_of(std::move(failure));
  return Recorded();
}

void Writer::append(const Event& event, Done done) {
  {
    Lock lock(mutex_);
    if (options_.sync == Sync::Strict && started_) {
      if (Result failure = record(event, std::chrono::system_clock::now())) {
        tell(lock);
        return done(outcome_of(std::move(failure)));
      }
      waiting_.push_back({written_, std::move(done)});
      work_.notify_one();
      return tell(lock);
    }
  }
  done(append(event));
}

bool Writer::note(const Event& event) {
  Lock lock(mutex_);
  const Time time = std::chrono::system_clock::now();
  Result failure = record(event, time);
  if (failure && hold(event, time)) --missed_;
  if (!failure && options_.sync == Sync::Strict) failure = await_disk(lock, written_);
  tell(lock);
  return !failure;
}

void Writer::defer(Event event, Of of) {
  constexpr size_t kUsual = 8;
  const Lock lock(mutex_);
  std::vector<Event>& to = of == Of::WhatMayBeRefused ? refusable_ : happened_;
  if (to.empty()) to.reserve(kUsual);
  to.push_back(std::move(event));
}

Outcome Writer::commit(Of of) {
  Lock lock(mutex_);
  if (options_.sync == Sync::Strict) of = Of::WhatHasHappened;
  const bool any = deferred(of);
  if (any) record_deferred(of, nullptr, std::chrono::system_clock::now());
  Result failure = std::exchange(deferred_failure_, {});
  if (any && !failure &&
      (options_.sync == Sync::Strict || (!started_ && Clock::now() >= sync_time())))
    failure = await_disk(lock, written_);
  tell(lock);
  if (failure) return outcome_of(std::move(failure));
  return Recorded();
}

void Writer::retry() {
  Lock lock(mutex_);
  resume();  // what fails is told by fail()
  tell(lock);
}

Outcome Writer::close() {
  Lock lock(mutex_);
  retry_at_ = {};  // there is no later
  constexpr Of kAll = Of::WhatHasHappened;
  if (deferred(kAll)) record_deferred(kAll, nullptr, std::chrono::system_clock::now());
  Result failure = closed_ ? fail("the audit log is closed", true) : resume();
  if (!failure) failure = write_signed(LogClosed{missed_});
  if (!failure) closed_ = true;
  if (!failure && options_.sync == Sync::Strict) failure = await_disk(lock, written_);
  tell(lock);
  if (failure) return outcome_of(std::move(failure));
  return Recorded();
}

Head Writer::head() const {
  const std::lock_guard lock(mutex_);
  return {next_.seq - 1, next_.prev};
}

Writer::Result Writer::record(const Event& event, Time time) {
  if (deferred(Of::WhatHasHappened)) return record_deferred(Of::WhatHasHappened, &event, time);
  const Event* const one = &event;
  size_t done = 0;
  Result failure = resume();
  if (!failure) failure = write_events({&one, 1}, time, done);
  if (failure) {
    ++missed_;
    return failure;
  }
  // The event is recorded, whatever becomes of the checkpoint; fail() tells of that.
  set_checkpoint_if_due();
  return std::nullopt;
}

bool Writer::deferred(Of of) const {
  return !refusable_.empty() || (of == Of::WhatHasHappened && !happened_.empty());
}

// What was deferred, and `then` behind it, if there is something. A failure: of the last of them.
Writer::Result Writer::record_deferred(Of of, const Event* then, Time time) {
  const auto refusable = std::exchange(refusable_, {});
  const auto happened =
      of == Of::WhatHasHappened ? std::exchange(happened_, {}) : std::vector<Event>();
  std::vector<const Event*> events;
  events.reserve(refusable.size() + happened.size() + 1);
  for (const Event& each : refusable) events.push_back(&each);
  for (const Event& each : happened) events.push_back(&each);
  if (then != nullptr) events.push_back(then);
  size_t done = 0;
  Result failure = resume();
  if (!failure) failure = write_events(events, time, done);
  if (done < refusable.size()) deferred_failure_ = failure;
  for (size_t i = done; i < events.size(); ++i) {
    const bool waits = i >= refusable.size() && i < refusable.size() + happened.size();
    if (!waits || !hold(*events[i], time)) ++missed_;
  }
  if (!failure) set_checkpoint_if_due();
  return failure;
}

// False: there is no later, or no room.
bool Writer::hold(const Event& event, Time time) {
  if (for_good_ || closed_ || held_.size() >= options_.max_held) return false;
  held_.push_back({event, time});
  return true;
}

Writer::Lines Writer::lines_of(std::span<const Event* const> events, Time time) {
  constexpr size_t kUsual = 512;
  Lines lines;
  lines.bytes.reserve(events.size() * kUsual);
  lines.ends.reserve(events.size());
  lines.behind.reserve(events.size());
  Position at = next_;
  for (const Event* const event : events) {
    const std::string line = encode(at, time, log_, *event, options_.detail);
    line_hash_.restart();
    line_hash_.update(as_bytes(line));
    at = {at.seq + 1, line_hash_.finish()};
    lines.bytes.append(line).append("\n");
    lines.ends.push_back(lines.bytes.size());
    lines.behind.push_back(at);
  }
  return lines;
}

Writer::Result Writer::write_events(std::span<const Event* const> events, Time time, size_t& done) {
  Lines lines = lines_of(events, time);
  if (log_size_ + lines.bytes.size() > options_.max_log)
    return fail("the audit log of " + log_.text() + " has reached its limit of " +
                    format_size(options_.max_log),
                true);
  if (file_size_ + lines.bytes.size() > options_.max_file) {
    if (Result failure = next_file()) return failure;
    lines = lines_of(events, time);  // the position has moved on
  }
  Result failure = write_lines(lines, done);
  since_checkpoint_ += done;
  return failure;
}

// Nothing when the writer works, or works again.
Writer::Result Writer::resume() {
  if (closed_) return Failure{"the audit log is closed"};
  if (!failure_) return std::nullopt;
  if (for_good_ || Clock::now() < retry_at_) return failure_;
  // Where no part of a line lies in the way, a file that has been begun can go on.
  const bool begun = torn_bytes_ == 0 && file_size_ != 0;
  if (Result failure = begun ? write_signed(Checkpoint{missed_}) : next_file()) return failure;
  for (; !held_.empty(); held_.pop_front()) {
    const Event* const one = &held_.front().event;
    size_t done = 0;
    if (Result failure = write_events({&one, 1}, held_.front().time, done)) return failure;
  }
  failure_.reset();
  news_.emplace_back([this] { on_failure_(std::nullopt); });
  return std::nullopt;
}

void Writer::set_checkpoint_if_due() {
  if (since_checkpoint_ < options_.checkpoint_records &&
      (since_checkpoint_ == 0 || Clock::now() < last_checkpoint_ + options_.checkpoint_time))
    return;
  write_signed(Checkpoint{missed_});  // what fails is told by fail()
}

// ---- lines ----------------------------------------------------------------------------------

// A write that fails may have taken some of the lines, and a part of the next.
Writer::Result Writer::write_lines(const Lines& lines, size_t& done) {
  const ByteView bytes = as_bytes(lines.bytes);
  size_t written = 0;
  int error = 0;
  try {
    while (written < bytes.size())
      written += sys::write_some(file_->get(), bytes.subspan(written)).value_or(0);
  } catch (const SystemError& failed) {
    error = failed.errno_value();
  }
  file_size_ += written;
  log_size_ += written;
  while (done < lines.ends.size() && lines.ends[done] <= written) ++done;
  if (done > 0) {
    next_ = lines.behind[done - 1];
    if (!dirty()) {
      dirty_since_ = Clock::now();
      work_.notify_one();
    }
    written_ += done;
  }
  if (done == lines.ends.size()) return std::nullopt;
  const size_t whole = done == 0 ? 0 : lines.ends[done - 1];
  torn_hash_.update(bytes.subspan(whole, written - whole));
  torn_bytes_ += written - whole;
  return fail("writing the audit log of " + log_.text() + ": " + sys::errno_text(error), false);
}

Writer::Result Writer::write_signed(const LogRecord& record) {
  std::string line = encode(next_, std::chrono::system_clock::now(), record, key_);
  if (log_size_ + line.size() > options_.max_log + kReserve)
    return fail("the audit log of " + log_.text() + " is full", true);
  size_t done = 0;
  if (Result failure =
          write_lines({line + "\n", {line.size() + 1}, {{next_.seq + 1, hash_of(line)}}}, done))
    return failure;
  missed_ = 0;
  since_checkpoint_ = 0;
  last_checkpoint_ = Clock::now();
  if (on_signed_) news_.emplace_back([this, line = std::move(line)] { on_signed_(line); });
  return std::nullopt;
}

// Goes on in a new file; in the one that is there when nothing was written to it yet.
Writer::Result Writer::next_file() {
  try {
    if (file_size_ != 0) {
      auto file = std::make_shared<sys::Fd>(
          sys::open_at(directory_.get(), file_name(number_ + 1),
                       O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW));
      if (dirty()) left_.push_back(file_);
      file_ = std::move(file);
      ++number_;
      file_size_ = 0;
    }
  } catch (const SystemError& error) {
    return fail("making a file of the audit log of " + log_.text() + ": " +
                    sys::errno_text(error.errno_value()),
                false);
  }
  FileOpened opened;
  opened.log = log_;
  opened.file = number_;
  opened.missed = missed_;
  // A copy of the hash so far: this line may be cut short too.
  if (torn_bytes_ != 0) opened.torn = {torn_bytes_, torn_hash_.digest()};
  if (Result failure = write_signed(opened)) return failure;
  torn_bytes_ = 0;
  torn_hash_ = crypto::Sha256();
  return std::nullopt;
}

Writer::Result Writer::fail(std::string why, bool for_good) {
  for_good_ = for_good_ || for_good;
  if (for_good_) missed_ += std::exchange(held_, {}).size();
  retry_at_ = Clock::now() + options_.retry;
  const bool news = !failure_;
  failure_ = Failure{std::move(why)};
  if (news) news_.emplace_back([this, failure = failure_] { on_failure_(failure); });
  return failure_;
}

}
