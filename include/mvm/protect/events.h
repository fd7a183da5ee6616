#pragma once
// Restores tokens in streams of events: Server-Sent Events and lines of JSON, as models answer
// with. A token may come in pieces, each the end or the beginning of the same string of one event
// after the other:
//
//   data: {"index":0,"delta":{"text":"write to mvmp"}}
//   data: {"index":0,"delta":{"text":"iiq3…@pii.in"}}
//   data: {"index":0,"delta":{"text":"valid, please"}}
//
// An event whose string ends with a true beginning of a token waits for the next one with that
// string, and others behind it, at most kMaxBehind of them. If the token becomes whole its value
// goes into the first of its pieces' strings; if not, the events are given as they came.
//
// A string may be a piece of JSON itself, as what a model calls a tool with is
// ("partial_json":"{\"to\": \"mv"): where in that it ends is kept for the next one with its key.

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/protect/restore.h"

namespace mvm::protect {

class EventRestorer {
 public:
  enum class Kind : uint8_t { ServerSent, Lines };
  static constexpr size_t kMaxEvent = size_t{256} * 1024;  // a longer one is no event
  static constexpr size_t kMaxBehind = 64;
  static constexpr size_t kMaxWaiting = size_t{512} * 1024;  // bytes of all that wait
  static constexpr size_t kMaxNests = 64;                    // strings that are pieces of JSON

  EventRestorer(Vault& vault, Kind kind, OnMismatch on_mismatch, PastTokens* past = nullptr)
      : kind_(kind), restorer_(vault, Escaping::JsonString, on_mismatch, past) {}

  // As Restorer's.
  bool feed(std::string_view bytes, Vault::Time now, std::string& out);
  bool finish(Vault::Time now, std::string& out);

  const Restorer::Counts& counts() const noexcept { return restorer_.counts(); }
  size_t waiting() const noexcept { return waiting_.size(); }

 private:
  struct Text {  // a string within an event
    size_t offset = 0;
    size_t length = 0;
    std::string key;   // the same in the next event for what it continues
    std::string made;  // what stands there now
    JsonNest nest;     // where it begins
  };
  struct Event {
    std::string raw;
    std::vector<Text> texts;
    size_t open = 0;  // texts that are pieces of a token that is not whole
  };
  struct Piece {
    uint64_t event = 0;  // its number
    size_t text = 0;
    size_t length = 0;  // at the text's end, or all of it
  };
  struct Chain {
    std::string token;  // so far
    JsonNest nest;      // where it begins
    std::vector<Piece> pieces;
  };

  size_t event_end() const;
  bool take(std::string raw, Vault::Time now, std::string& out);
  bool take_text(Event& event, uint64_t number, size_t index, Vault::Time now);
  bool begin_text(Event& event, uint64_t number, size_t index, std::string_view rest,
                  Vault::Time now);
  void nest(Text& text, std::string_view raw);
  std::vector<Text> texts_of(const std::string& raw) const;
  bool decide(const Chain& chain, std::string_view joined, size_t& length, Vault::Time now);
  bool settle(std::map<std::string, Chain>::iterator open, Vault::Time now);
  void release(const Chain& chain);
  bool refuse() noexcept {
    refused_ = true;
    return false;
  }
  void give(std::string& out);
  Event& at(uint64_t number) { return waiting_[number - first_]; }

  Kind kind_;
  Restorer restorer_;
  std::string held_;  // an event that has not ended
  size_t seen_ = 0;   // of it, that holds no end
  std::deque<Event> waiting_;
  uint64_t first_ = 0;  // number of the first that waits
  size_t bytes_ = 0;    // of those
  std::map<std::string, Chain> chains_;
  std::map<std::string, JsonNest> nests_;  // by key, where the string ended
  bool refused_ = false;
};

}
