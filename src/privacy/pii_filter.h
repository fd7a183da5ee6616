#pragma once
// One exchange's filter.
//
//   request_head()   target and fields are replaced in place
//   request_body()   decoder ─ rewriter of its form ─ encoder
//   response_head()  tokens in fields are put back
//   response_body()  decoder ─ UTF-8 ─ watch ─ restorer ─ UTF-8 ─ encoder

#include <map>
#include <optional>
#include <tuple>

#include "mvm/http/coding.h"
#include "mvm/privacy/filter.h"
#include "mvm/protect/body.h"
#include "mvm/protect/events.h"

#include "token_watch.h"

namespace mvm::privacy {

class PiiFilter final : public egress::ExchangeFilter {
 public:
  PiiFilter(PiiSource& source, const egress::Exchange& exchange, Plan plan,
            std::shared_ptr<FlowTokens> tokens);

  egress::FilterVerdict request_head(http::RequestHead& head, egress::BodyUse& body) override;
  egress::FilterVerdict request_body(ByteView in, bool last, Bytes& out) override;
  egress::FilterVerdict request_trailers(http::Headers& trailers) override;
  void request_left() noexcept override;
  egress::FilterVerdict response_head(http::ResponseHead& head, egress::BodyUse& body) override;
  egress::FilterVerdict response_body(ByteView in, bool last, Bytes& out) override;
  egress::FilterVerdict response_trailers(http::Headers& trailers) override;
  void ended(bool whole) noexcept override;

 private:
  // A body's content coding, off and on again.
  struct Coded {
    std::optional<http::Decoder> decoder;
    std::optional<http::Encoder> encoder;
    bool any = false;  // some of it has come
  };
  using Use = std::function<bool(std::string_view text, std::string& out)>;
  enum class Passed : uint8_t { Fine, Damaged, Refused };

  // ---- request
  protect::Replace replacer(std::string_view place, bool credentials = true);
  const std::string* issue(protect::PiiClass kind, std::string_view value);
  void rewrite_target(std::string& target);
  void rewrite_fields(http::Headers& headers);
  egress::FilterVerdict prepare_body(const http::RequestHead& head, egress::BodyUse& body);
  egress::FilterVerdict undecodable(const std::string& why, std::string_view what = "content");
  egress::FilterVerdict denied();

  // ---- response
  bool has_tokens() const;
  void restore_fields(http::Headers& headers);
  std::string restored(std::string_view text, protect::Restorer& restorer);
  class Restoring;
  bool make_restorer(const http::ResponseHead& head);
  bool restore(std::string_view text, bool last, std::string& out);
  egress::FilterVerdict mismatched();
  void count(const protect::Restorer::Counts& counts, std::string_view place);
  void count_body();

  Coded coded(const std::vector<http::Coding>& codings) const;
  // Through decoder, `use` and encoder; each piece can be decoded at once where `flush` says so.
  Passed pass(Coded& coded, ByteView in, const Use& use, bool flush, Bytes& out);
  static void end(Coded& coded, const std::string& rest, Bytes& out);
  void note(Note::Kind kind, std::string_view name, std::string_view place, uint64_t count = 1,
            std::string_view change = {});
  void tell();

  PiiSource& source_;
  egress::Exchange exchange_;
  Plan plan_;
  std::shared_ptr<FlowTokens> tokens_;
  protect::ValueScanner scanner_;
  using What = std::tuple<Note::Kind, std::string, std::string_view, std::string_view>;
  std::map<What, uint64_t> notes_;
  std::string denied_;  // the first class that may not leave
  std::string_view denied_place_;

  Coded request_;
  std::unique_ptr<protect::BodyRewriter> rewriter_;
  bool request_done_ = true;
  Coded response_;
  std::unique_ptr<protect::BodyRewriter> answer_;
  std::optional<TokenWatch> watch_;
  std::unique_ptr<protect::Restorer> restorer_;
  std::unique_ptr<protect::EventRestorer> events_;
  bool mismatch_ = false;
};

}
