// Theory of operation. Each event is taken apart into its strings. A string is restored by itself,
// but for a true beginning of a token at its end: that opens a chain under the string's key, and
// the event waits. The next string with the key either goes on with the chain (it is wholly within
// the token, or the token ends in it) or shows that there was no token: then the chain's events
// stand as they were. A token that is whole waits for what follows it, too, in strings that are
// written bit by bit. Events leave in order, the first that waits keeps those behind it.

#include "mvm/protect/events.h"

#include <algorithm>
#include <array>
#include <utility>

#include "json_texts.h"

namespace mvm::protect {

// Behind a token: whether it goes on as a longer word (restore.cc).
static constexpr size_t kLookAhead = 2;

// Where the first event that is held ends; 0: it goes on. An empty line ends an event, in any of
// the spellings of line ends (HTML standard §9.2.5).
size_t EventRestorer::event_end() const {
  for (size_t at = held_.find('\n', seen_); at != std::string::npos;
       at = held_.find('\n', at + 1)) {
    if (kind_ == Kind::Lines) return at + 1;
    const bool empty = (at >= 1 && held_[at - 1] == '\n') ||
                       (at >= 2 && held_[at - 1] == '\r' && held_[at - 2] == '\n') || at == 0 ||
                       (at == 1 && held_[0] == '\r');
    if (empty) return at + 1;
  }
  return 0;
}

bool EventRestorer::feed(std::string_view bytes, Vault::Time now, std::string& out) {
  if (refused_) return false;
  while (!bytes.empty()) {
    const size_t take_now = std::min(bytes.size(), kMaxEvent);
    held_ += bytes.substr(0, take_now);
    bytes.remove_prefix(take_now);
    for (size_t end = event_end(); end > 0; end = event_end()) {
      std::string raw = held_.substr(0, end);
      held_.erase(0, end);
      seen_ = 0;
      if (!take(std::move(raw), now, out)) return false;
    }
    seen_ = held_.size();
    if (held_.size() <= kMaxEvent) continue;
    seen_ = 0;
    if (!take(std::exchange(held_, {}), now, out)) return false;
  }
  return true;
}

bool EventRestorer::finish(Vault::Time now, std::string& out) {
  if (refused_) return false;
  seen_ = 0;
  if (!held_.empty() && !take(std::exchange(held_, {}), now, out)) return false;
  while (!chains_.empty())
    if (!settle(chains_.begin(), now)) return refuse();
  give(out);
  return true;
}

// The strings of its data, when that is JSON in one line; else all of it is one text.
std::vector<EventRestorer::Text> EventRestorer::texts_of(const std::string& raw) const {
  std::vector<Text> texts;
  size_t begin = 0;
  size_t end = raw.size();
  if (kind_ == Kind::ServerSent) {
    constexpr std::string_view kData = "data:";
    size_t lines = 0;
    for (size_t at = 0; at < raw.size();) {
      const size_t line_end = std::min(raw.find('\n', at), raw.size());
      if (raw.compare(at, kData.size(), kData) == 0) {
        begin = at + kData.size();
        end = line_end;
        ++lines;
      }
      at = line_end + 1;
    }
    if (lines != 1) begin = 0, end = raw.size();
    if (lines != 1) {
      if (!raw.empty()) texts.push_back({0, raw.size(), {}, {}, JsonNest::document()});
      return texts;
    }
    if (begin < end && raw[begin] == ' ') ++begin;
  }
  while (end > begin && (raw[end - 1] == '\n' || raw[end - 1] == '\r')) --end;
  const std::string_view document = std::string_view(raw).substr(begin, end - begin);
  if (const auto found = json_texts(document)) {
    for (const JsonText& text : *found)
      texts.push_back({begin + text.offset, text.length, text.key, {}, JsonNest::inside_string()});
  } else if (end > begin) {
    texts.push_back({begin, end - begin, {}, {}, JsonNest::document()});
  }
  return texts;
}

bool EventRestorer::take(std::string raw, Vault::Time now, std::string& out) {
  Event event;
  event.texts = texts_of(raw);
  event.raw = std::move(raw);
  const uint64_t number = first_ + waiting_.size();
  bytes_ += event.raw.size();
  waiting_.push_back(std::move(event));
  for (size_t i = 0; i < waiting_.back().texts.size(); ++i) {
    if (!take_text(waiting_.back(), number, i, now)) return refuse();
  }
  while (!chains_.empty() && (waiting_.size() > kMaxBehind || bytes_ > kMaxWaiting)) {
    const auto oldest = std::ranges::min_element(
        chains_, {}, [](const auto& entry) { return entry.second.pieces.front().event; });
    if (!settle(oldest, now)) return refuse();
    give(out);
  }
  give(out);
  return true;
}

// Where in JSON the text stands: in what the one before it with its key has begun, if it goes on
// with that, else by itself.
void EventRestorer::nest(Text& text, std::string_view raw) {
  if (text.key.empty()) return;
  const auto before = nests_.find(text.key);
  JsonNest after = before == nests_.end() ? text.nest : before->second;
  after.feed(raw);
  if (before != nests_.end() && after.is_json()) {
    text.nest = before->second;
  } else {
    after = text.nest;
    after.feed(raw);
  }
  if (!after.goes_on()) {
    if (before != nests_.end()) nests_.erase(before);
    return;
  }
  if (before == nests_.end() && nests_.size() == kMaxNests) nests_.erase(nests_.begin());
  nests_.insert_or_assign(text.key, after);
}

bool EventRestorer::take_text(Event& event, uint64_t number, size_t index, Vault::Time now) {
  Text& text = event.texts[index];
  const auto raw = std::string_view(event.raw).substr(text.offset, text.length);
  nest(text, raw);
  const auto open = chains_.find(text.key);
  if (open == chains_.end() || raw.empty() ||
      open->second.pieces.back().event == number)  // a name that is there twice
    return begin_text(event, number, index, raw, now);

  Chain& chain = open->second;
  restorer_.reset();
  const std::string joined = chain.token + std::string(raw);
  size_t length = restorer_.whole_token(joined);
  if (restorer_.is_beginning(joined) || (length > 0 && joined.size() < length + kLookAhead)) {
    chain.token = joined;
    chain.pieces.push_back({number, index, raw.size()});
    text.made = raw;
    ++event.open;
    return true;
  }
  if (!decide(chain, joined, length, now)) return false;
  const size_t used = length - std::min(length, chain.token.size());
  release(chain);
  chains_.erase(open);
  return begin_text(event, number, index, raw.substr(used), now);
}

// What is to be instead of the token, whole or changed, that `joined` begins with goes into the
// first of its pieces' texts, with what is behind it in the chain. `length`: of the token.
bool EventRestorer::decide(const Chain& chain, std::string_view joined, size_t& length,
                           Vault::Time now) {
  std::string value;
  restorer_.reset(chain.nest);
  length = restorer_.whole_token(joined);
  if (length > 0) {
    if (!restorer_.feed(joined.substr(0, length), now, value) || !restorer_.finish(now, value))
      return false;
  } else if (!restorer_.take_wrong(joined, length, value)) {
    return false;
  } else if (value == joined.substr(0, length)) {
    length = 0;  // none, or it is kept: the events stand as they came
  }
  if (length == 0) return true;
  if (chain.token.size() > length) value += chain.token.substr(length);
  for (const Piece& piece : chain.pieces) {
    std::string& made = at(piece.event).texts[piece.text].made;
    made.resize(made.size() - piece.length);
    if (&piece == &chain.pieces.front()) made += value;
  }
  return true;
}

// Strings that models write bit by bit, where what follows is in the next event; others are whole.
static bool is_written_bit_by_bit(std::string_view key) {
  static constexpr std::array kNames = std::to_array<std::string_view>(
      {"", "content", "text", "delta", "arguments", "partial_json", "thinking", "reasoning",
       "reasoning_content", "response", "completion", "transcript", "output"});
  key = key.substr(0, key.find('#'));
  const size_t dot = key.rfind('.');
  if (dot != key.npos) key.remove_prefix(dot + 1);
  return std::ranges::find(kNames, key) != kNames.end();
}

// `rest` of a text, which no chain goes on in.
bool EventRestorer::begin_text(Event& event, uint64_t number, size_t index, std::string_view rest,
                               Vault::Time now) {
  Text& text = event.texts[index];
  const auto raw = std::string_view(event.raw).substr(text.offset, text.length);
  JsonNest place = text.nest;
  place.feed(raw.substr(0, raw.size() - rest.size()));
  restorer_.reset(place);
  if (!restorer_.feed(rest, now, text.made)) return false;
  const std::string_view tail = rest.substr(rest.size() - restorer_.held());
  const bool waits = restorer_.is_beginning(tail) ||
                     (restorer_.whole_token(tail) > 0 && is_written_bit_by_bit(text.key));
  if (!waits || chains_.contains(text.key)) return restorer_.finish(now, text.made);
  text.made += tail;
  place = text.nest;
  place.feed(raw.substr(0, raw.size() - tail.size()));
  chains_.emplace(text.key, Chain{std::string(tail), place, {{number, index, tail.size()}}});
  ++event.open;
  return true;
}

// Nothing follows, as far as we wait for it.
bool EventRestorer::settle(std::map<std::string, Chain>::iterator open, Vault::Time now) {
  const Chain& chain = open->second;
  size_t length = 0;
  const bool fine = decide(chain, chain.token, length, now);
  release(chain);
  chains_.erase(open);
  return fine;
}

void EventRestorer::release(const Chain& chain) {
  for (const Piece& piece : chain.pieces) --at(piece.event).open;
}

void EventRestorer::give(std::string& out) {
  while (!waiting_.empty() && waiting_.front().open == 0) {
    const Event& event = waiting_.front();
    size_t done = 0;
    for (const Text& text : event.texts) {
      out.append(event.raw, done, text.offset - done).append(text.made);
      done = text.offset + text.length;
    }
    out.append(event.raw, done);
    bytes_ -= event.raw.size();
    waiting_.pop_front();
    ++first_;
  }
}

}
