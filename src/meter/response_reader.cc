#include "mvm/meter/reader.h"

namespace mvm::meter {

ResponseReader::Framing ResponseReader::framing_of(std::string_view content_type) {
  const auto is = [&](std::string_view type) {
    return content_type.size() >= type.size() &&
           http::same_name(content_type.substr(0, type.size()), type);
  };
  if (is("text/event-stream")) return Framing::Sse;
  if (is("application/vnd.amazon.eventstream")) return Framing::EventStream;
  // NDJSON is documents one behind the other.
  if (is("application/json") || is("application/x-ndjson") || is("application/ndjson") ||
      is("application/jsonl") || is("application/x-jsonl") || is("application/stream+json"))
    return Framing::Json;
  return Framing::Sniff;
}

void ResponseReader::head(const http::ResponseHead& head) {
  status_ = head.status;
  if (const std::string* type = http::find(head.headers, "content-type"))
    framing_ = framing_of(*type);
  for (const http::Header& header : head.headers) tally_.header(header.name, header.value);
}

void ResponseReader::feed(std::string_view bytes) {
  if (framing_ == Framing::Sniff) {
    const size_t at = bytes.find_first_not_of(" \t\r\n");
    if (at == std::string_view::npos) return;
    framing_ = bytes[at] == '{' || bytes[at] == '[' ? Framing::Json : Framing::Sse;
  }
  switch (framing_) {
    case Framing::Json:
      if (!json_.failed()) broken_ = !json_.feed(bytes, tally_);
      return;
    case Framing::Sse:
      sse_.feed(bytes, tally_);
      return;
    case Framing::EventStream:
      events_.feed(bytes, tally_);
      broken_ = events_.failed();
      return;
    case Framing::Sniff:
      return;
  }
}

void ResponseReader::finish(bool whole) {
  ended_ = true;
  whole_ = whole;
  if (!whole) return;
  if (framing_ == Framing::Json) broken_ = broken_ || !json_.finish(tally_);
  if (framing_ == Framing::Sse) sse_.finish(tally_);
  if (framing_ == Framing::EventStream) broken_ = broken_ || !events_.idle();
}

ResponseReader::Result ResponseReader::result() const {
  Result out;
  out.model = tally_.model();
  out.bad = tally_.bad();
  const auto usage = tally_.usage();
  const bool failed = status_ == 0 || status_ >= 400;
  const bool asked_for = !call_.once.empty();
  const bool may_be_free =
      asked_for || call_.operation == Operation::Other || call_.operation == Operation::Batch;
  // Of OpenAI's, one that its client waited for was counted when it was made. Gemini's do not tell:
  // there every one is known by its id from the beginning.
  const bool openai = call_.dialect == Dialect::OpenAi;
  const bool counted = asked_for && call_.kept && openai && !tally_.background();
  out.once = call_.once;
  if (!asked_for && call_.kept && (!openai || tally_.background())) out.once = tally_.id();
  if (counted || (may_be_free && tally_.pending())) {
    out.verdict = Verdict::Nothing;
    return out;
  }
  // A stream's early counts are not its last word; whatever says it is, is.
  const bool complete = tally_.final() || (ended_ && whole_ && !broken_ &&
                                           !(tally_.needs_final() && framing_ == Framing::Sse));
  if (usage && complete && !out.bad) {
    out.verdict = Verdict::Reported;
    out.usage = *usage;
    return out;
  }
  out.usage = tally_.least();
  const bool nothing_said = out.usage == Usage{};
  const bool whole_without = ended_ && whole_ && !out.bad && nothing_said;
  if (whole_without && (failed || may_be_free)) out.verdict = Verdict::Nothing;
  return out;
}

}
