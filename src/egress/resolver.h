#pragma once
// Names to addresses, by the host's resolvers: each question asked once however many wait for it,
// answers kept for as long as they hold, resolvers that do not answer passed over.

#include <list>
#include <map>
#include <memory>
#include <vector>

#include "dns_exchange.h"

namespace mvm::egress {

struct Answer {
  enum class Status : uint8_t {
    Found,  // records, or none of that type
    NoSuchName,
    Failed,  // nobody knew
    Busy,    // too many questions at a time
  };
  Status status = Status::Failed;
  // The CNAMEs from the name on, in order, and what is at their end. TTLs as of now.
  std::vector<dns::Record> records;
  uint32_t negative_ttl = 0;  // seconds; of an answer without records
};

// What of a reply belongs to the question: its chain of aliases, and the records at the end.
// Resolvers' TTLs are kept within bounds. Pure.
Answer pick_answer(const Question& question, const dns::Reply& reply);

class Resolver {
 public:
  using Done = std::function<void(const Answer&)>;

  static constexpr size_t kMaxKept = 4096;       // answers
  static constexpr size_t kMaxKeptRecords = 32;  // of one; longer ones are asked again
  static constexpr size_t kMaxLookups = 256;     // at a time
  static constexpr size_t kMaxWaiting = 64;      // for one of them

  // `resolvers` has at least one.
  Resolver(loop::Loop& loop, std::vector<Endpoint> resolvers);
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // Calls `done` once, at once when the answer is here. A dropped resolver calls nobody.
  void resolve(const Question& question, Done done);
  void forget();  // all answers

 private:
  struct Kept {
    Answer answer;
    loop::Clock::time_point since;
    loop::Clock::time_point until;
    std::list<Question>::iterator use;
  };
  class Lookup;

  std::optional<Answer> recall(const Question& question);
  void keep(const Question& question, const Answer& answer);
  void finish(const Question& question, const Answer& answer);

  loop::Loop& loop_;
  std::vector<Endpoint> resolvers_;
  std::map<Question, Kept> kept_;
  std::list<Question> uses_;  // the least recent first
  std::map<Question, std::unique_ptr<Lookup>> lookups_;
};

}
