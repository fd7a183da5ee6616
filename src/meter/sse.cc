#include <utility>

#include "mvm/meter/reader.h"

namespace mvm::meter {

void SseReader::feed(std::string_view bytes, Tally& tally) {
  for (size_t at = 0; at < bytes.size(); ++at) {
    const char c = bytes[at];
    if (std::exchange(behind_cr_, false) && c == '\n') continue;  // of a CR LF
    if (c == '\r' || c == '\n') {
      behind_cr_ = c == '\r';
      line_end(tally);
      continue;
    }
    if (where_ != Where::Data || head_.size() < kMaxName) {
      line_byte(c, tally);
      continue;
    }
    // The rest of the line in one piece.
    size_t end = bytes.find_first_of("\r\n", at);
    if (end == std::string_view::npos) end = bytes.size();
    if (!scanner_.failed()) scanner_.feed(bytes.substr(at, end - at), tally);
    at = end - 1;
  }
}

void SseReader::line_byte(char c, Tally& tally) {
  line_empty_ = false;
  switch (where_) {
    case Where::Name:
      if (c == ':') {
        where_ = name_ == "data" ? Where::Space : Where::Skip;
      } else if (name_.size() < kMaxName) {
        name_ += c;
      }
      return;
    case Where::Space:
      where_ = Where::Data;
      if (c == ' ') return;
      [[fallthrough]];
    case Where::Data:
      if (head_.size() < kMaxName) head_ += c;
      if (!scanner_.failed()) scanner_.feed({&c, 1}, tally);
      return;
    case Where::Skip:
      return;
  }
}

void SseReader::line_end(Tally& tally) {
  const bool empty = std::exchange(line_empty_, true);
  // Lines of one event's data are joined by a line break, which is white space of a document.
  if (where_ == Where::Data && !scanner_.failed()) scanner_.feed("\n", tally);
  where_ = Where::Name;
  name_.clear();
  if (empty) event_end(tally);
}

void SseReader::event_end(Tally& tally) {
  if (head_ == "[DONE]") tally.mark_final();
  // A document that is none, or not whole, is passed over: usage may be in another.
  scanner_.finish(tally);
  scanner_.reset();
  head_.clear();
}

void SseReader::finish(Tally& tally) {
  line_end(tally);
  event_end(tally);
}

}
