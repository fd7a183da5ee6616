#pragma once
// What waits for a person. Equal questions are one; how many wait, and how many may be put in a
// minute, is bounded, as a guest could otherwise wear out whoever answers.

#include <map>
#include <memory>
#include <vector>

#include "mvm/base/expected.h"
#include "mvm/egress/open_question.h"
#include "mvm/loop/loop.h"

#include "judge.h"

namespace mvm::egress {

enum class Answered : uint8_t { Allowed, Denied, TimedOut };

class Questions {
 public:
  static constexpr size_t kMaxQuestions = 32;
  static constexpr size_t kMaxWaiting = 256;  // over all questions
  static constexpr size_t kMaxPerMinute = 60;
  static constexpr std::chrono::seconds kKept{10};

  // Once, in a later turn than put(). It may drop the ticket, and put another question.
  using Done = std::function<void(Answered)>;

 private:
  struct Waiting {
    Done done;
    loop::Watch at_once;  // of one whose answer was there already
  };

 public:
  // One that waits. Dropping it takes it back; a question that nobody waits for is gone.
  class Ticket {
   public:
    Ticket() = default;
    ~Ticket() { reset(); }
    Ticket(Ticket&& other) noexcept = default;
    Ticket& operator=(Ticket&& other) noexcept;
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;
    void reset() noexcept;

   private:
    friend class Questions;
    Ticket(Questions* questions, uint64_t number, std::shared_ptr<Waiting> waiting)
        : questions_(questions), number_(number), waiting_(std::move(waiting)) {}
    Questions* questions_ = nullptr;
    uint64_t number_ = 0;
    std::shared_ptr<Waiting> waiting_;
  };

  // Every question is refused after `patience`. `sink` may be empty.
  Questions(loop::Loop& loop, std::chrono::milliseconds patience, QuestionSink sink);
  Questions(const Questions&) = delete;
  Questions& operator=(const Questions&) = delete;

  // The reason when no more can wait.
  Expected<Ticket, policy::Reason> put(const policy::Request& request,
                                       const policy::Decision& decision, Done done);
  // A yes that came when whoever asked could not go on any more: the next equal question, within
  // kKept, has it.
  void keep(const policy::Request& request, const policy::Decision& decision);
  std::vector<OpenQuestion> list() const;  // the oldest first
  // Those that the policy decides by now are answered by it.
  void settle(const Judge& judge);
  // Nothing when it does not wait any more.
  std::optional<OpenQuestion> answer(uint64_t number, bool allow);

 private:
  struct Entry {
    policy::Request request;
    OpenQuestion question;
    std::string key;
    std::vector<std::shared_ptr<Waiting>> waiting;
    loop::Clock::time_point by;
    loop::Watch deadline;
  };

  OpenQuestion shown(const Entry& entry) const;
  bool too_many_in_a_minute();
  bool take_kept(const std::string& key);
  void close(uint64_t number, Answered how);
  void withdraw(uint64_t number, const std::shared_ptr<Waiting>& waiting) noexcept;

  loop::Loop& loop_;
  std::chrono::milliseconds patience_;
  QuestionSink sink_;
  uint64_t next_;
  std::map<uint64_t, Entry> entries_;
  std::map<std::string, uint64_t> by_key_;
  std::map<std::string, loop::Clock::time_point> kept_;  // until when
  size_t waiting_ = 0;
  loop::Clock::time_point minute_;
  size_t in_minute_ = 0;
};

}
