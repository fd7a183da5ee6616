// How an event gets to the disk: append() encodes it, chains it and writes it with one write(2), so
// that a writer that is killed afterwards has lost nothing. fdatasync(2) follows beside it, on the
// writer's thread, and covers all that was written until then: callers that wait share one.
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
#include "mvm/sys/uninterrupted.h"

namespace mvm::audit {

// Beyond WriterOptions::max_log, for records of the log itself.
static constexpr uint64_t kReserve = 64 * 1024;

static Outcome outcome_of(std::optional<Failure> failure) {
  return Unexpected{std::move(*failure)};
}

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
  if (failure && !for_good_ && !closed_ && held_.size() < options_.max_held) {
    held_.push_back({event, time});
    --missed_;
  }
  if (!failure && options_.sync == Sync::Strict) failure = await_disk(lock, written_);
  tell(lock);
  return !failure;
}

void Writer::retry() {
  Lock lock(mutex_);
  resume();  // what fails is told by fail()
  tell(lock);
}

Outcome Writer::close() {
  Lock lock(mutex_);
  retry_at_ = {};  // there is no later
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
  Result failure = resume();
  if (!failure) failure = write_event(event, time);
  if (failure) {
    ++missed_;
    return failure;
  }
  // The event is recorded, whatever becomes of the checkpoint; fail() tells of that.
  set_checkpoint_if_due();
  return std::nullopt;
}

Writer::Result Writer::write_event(const Event& event, Time time) {
  const auto line_of = [&] { return encode(next_, time, log_, event, options_.detail); };
  std::string line = line_of();
  if (log_size_ + line.size() > options_.max_log)
    return fail("the audit log of " + log_.text() + " has reached its limit of " +
                    format_size(options_.max_log),
                true);
  if (file_size_ + line.size() > options_.max_file) {
    if (Result failure = next_file()) return failure;
    line = line_of();  // the position has moved on
  }
  if (Result failure = write_line(line)) return failure;
  ++since_checkpoint_;
  return std::nullopt;
}

// Nothing when the writer works, or works again.
Writer::Result Writer::resume() {
  if (closed_) return Failure{"the audit log is closed"};
  if (!failure_) return std::nullopt;
  if (for_good_ || Clock::now() < retry_at_) return failure_;
  // Where no part of a line lies in the way, a file that has been begun can go on.
  const bool begun = torn_bytes_ == 0 && file_size_ != 0;
  if (Result failure = begun ? write_signed(Checkpoint{missed_}) : next_file()) return failure;
  for (; !held_.empty(); held_.pop_front())
    if (Result failure = write_event(held_.front().event, held_.front().time)) return failure;
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

Writer::Result Writer::write_line(const std::string& line) {
  const std::string bytes = line + "\n";
  size_t done = 0;
  try {
    while (done < bytes.size())
      done += sys::write_some(file_->get(), as_bytes(bytes).subspan(done)).value_or(0);
  } catch (const SystemError& error) {
    torn_hash_.update(as_bytes(bytes).first(done));
    torn_bytes_ += done;
    file_size_ += done;
    log_size_ += done;
    return fail(
        "writing the audit log of " + log_.text() + ": " + sys::errno_text(error.errno_value()),
        false);
  }
  file_size_ += bytes.size();
  log_size_ += bytes.size();
  next_ = {next_.seq + 1, hash_of(line)};
  if (!dirty()) {
    dirty_since_ = Clock::now();
    work_.notify_one();
  }
  ++written_;
  return std::nullopt;
}

Writer::Result Writer::write_signed(const LogRecord& record) {
  std::string line = encode(next_, std::chrono::system_clock::now(), record, key_);
  if (log_size_ + line.size() > options_.max_log + kReserve)
    return fail("the audit log of " + log_.text() + " is full", true);
  if (Result failure = write_line(line)) return failure;
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

// ---- the disk -------------------------------------------------------------------------------

Writer::Clock::time_point Writer::sync_time() const {
  if (!dirty() || disk_failed_) return Clock::time_point::max();
  return options_.sync == Sync::Strict ? dirty_since_ : dirty_since_ + options_.delay;
}

Writer::Result Writer::sync(Lock& lock) {
  const uint64_t target = written_;
  std::vector<std::shared_ptr<sys::Fd>> files;
  files.swap(left_);
  files.push_back(file_);
  lock.unlock();
  int error = 0;
  for (const auto& file : files)
    if (sys::uninterrupted([&] { return ::fdatasync(file->get()); }) != 0) error = errno;
  lock.lock();
  // The kernel may have dropped what it could not write (fsync(2), EIO): from here on nobody knows
  // what the disk has, so this writer is done.
  if (error != 0) {
    disk_failed_ = true;
    synced_.notify_all();
    return fail("syncing the audit log of " + log_.text() + ": " + sys::errno_text(error), true);
  }
  if (on_disk_ < target) on_disk_ = target;
  dirty_since_ = Clock::now();
  synced_.notify_all();
  return std::nullopt;
}

Writer::Result Writer::await_disk(Lock& lock, uint64_t ticket) {
  if (!started_) return sync(lock);
  work_.notify_one();
  synced_.wait(lock, [&] { return on_disk_ >= ticket || disk_failed_ || stopping_; });
  if (on_disk_ >= ticket) return std::nullopt;
  return disk_failed_ ? failure_ : Failure{"the audit log's writer is ending"};
}

void Writer::tell(Lock& lock) {
  const auto news = std::exchange(news_, {});
  lock.unlock();
  for (const auto& each : news) each();
}

void Writer::run() {
  Lock lock(mutex_);
  while (!stopping_) {
    const auto checkpoint = since_checkpoint_ != 0 && !failure_ && !closed_
                                ? last_checkpoint_ + options_.checkpoint_time
                                : Clock::time_point::max();
    const auto wake = std::min(sync_time(), checkpoint);
    if (Clock::now() < wake) {
      // wait_until() of the end of time overflows in the library.
      if (wake == Clock::time_point::max())
        work_.wait(lock);
      else
        work_.wait_until(lock, wake);
      continue;
    }
    if (sync_time() <= Clock::now())
      sync(lock);  // what fails is told by fail()
    else
      set_checkpoint_if_due();
    std::vector<Waiting> ready;
    std::erase_if(waiting_, [&](Waiting& each) {
      if (!disk_failed_ && each.ticket > on_disk_) return false;
      ready.push_back(std::move(each));
      return true;
    });
    const Result failure = failure_;
    const uint64_t on_disk = on_disk_;
    tell(lock);
    for (const Waiting& each : ready)
      each.done(each.ticket <= on_disk ? Outcome(Recorded()) : outcome_of(failure));
    lock.lock();
  }
  synced_.notify_all();
}

}
