// Any answer in any pieces is read as in one piece; requests that are changed stay what they were
// but for one member; a journal's bytes are an account or none. The first two bytes choose the
// dialect and the cuts.

#include <cstdlib>
#include <string>

#include "mvm/meter/journal.h"
#include "mvm/meter/reader.h"
#include "mvm/meter/stream_usage.h"

using namespace mvm::meter;

namespace {

ResponseReader::Result read(const Call& call, std::string_view type, std::string_view body,
                            size_t step) {
  ResponseReader reader(call);
  mvm::http::ResponseHead head;
  head.status = 200;
  head.headers.push_back({"content-type", std::string(type)});
  reader.head(head);
  for (size_t at = 0; at < body.size(); at += step) reader.feed(body.substr(at, step));
  reader.finish(true);
  return reader.result();
}

template <typename Rewriter>
std::string rewrite(std::string_view body, size_t step) {
  Rewriter rewriter;
  std::string out;
  for (size_t at = 0; at < body.size(); at += step) rewriter.feed(body.substr(at, step), out);
  rewriter.finish(out);
  return out;
}

}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  Call call;
  call.dialect = static_cast<Dialect>(data[0] % 7);
  call.operation = Operation::Chat;
  call.kept = data[0] >= 128;
  constexpr std::array<std::string_view, 4> kTypes{"application/json", "text/event-stream",
                                                   "application/vnd.amazon.eventstream", ""};
  const std::string_view type = kTypes.at(data[0] / 7 % 4);
  const size_t step = data[1] % 17 + 1;
  const std::string_view body(reinterpret_cast<const char*>(data) + 2, size - 2);
  // Without a type, the first piece decides; it has to be the same one.
  if (!(read(call, type, body, step) == read(call, type, body, size))) std::abort();

  const std::string asked = rewrite<UsageAsker>(body, step);
  if (asked != rewrite<UsageAsker>(body, size)) std::abort();
  if (rewrite<UsageAsker>(asked, step) != asked) std::abort();
  const std::string less = rewrite<UsageHider>(body, step);
  if (less != rewrite<UsageHider>(body, size) || less.size() > body.size()) std::abort();
  RequestReader request;
  request.feed(body);
  request.finish();
  static_cast<void>(bounds_of(request.facts()));

  const mvm::ByteView bytes = mvm::as_bytes(body);
  if (const auto journal = read_journal(bytes)) {
    const auto again = read_journal(encode_journal(journal->account));
    if (!again || !(again->account == journal->account)) std::abort();
  }
  return 0;
}
