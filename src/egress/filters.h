#pragma once
// The filters of one exchange, as one: requests pass them first to last, responses last to first.

#include <span>

#include "mvm/egress/filter.h"

namespace mvm::egress {

// Of a request that was admitted, and whose admission could not be recorded.
FilterRefusal not_recorded();

class Filters {
 public:
  Filters() = default;
  Filters(std::span<const std::shared_ptr<FilterSource>> sources, const Exchange& exchange);
  ~Filters() { end(false); }
  Filters(const Filters&) = delete;
  Filters& operator=(const Filters&) = delete;
  Filters(Filters&& other) noexcept : stages_(std::move(other.stages_)) { other.stages_.clear(); }
  Filters& operator=(Filters&& other) noexcept;

  // What the body's bytes have to go through; Ignore: nobody wants them.
  BodyUse request_use() const noexcept;
  BodyUse response_use() const noexcept;

  FilterVerdict request_head(http::RequestHead& head);
  FilterVerdict interim_head(http::ResponseHead& head);
  FilterVerdict response_head(http::ResponseHead& head);
  // Appends to `out` what goes on; with Read, that is `in`.
  FilterVerdict request_body(ByteView in, bool last, Bytes& out);
  FilterVerdict response_body(ByteView in, bool last, Bytes& out);
  // Of no trailers: nothing.
  FilterVerdict request_trailers(http::Headers& trailers);
  FilterVerdict response_trailers(http::Headers& trailers);
  // Tells them, once; there are none afterwards.
  void end(bool whole) noexcept;

 private:
  using Piece = FilterVerdict (ExchangeFilter::*)(ByteView, bool, Bytes&);
  struct Stage {
    std::unique_ptr<ExchangeFilter> filter;
    BodyUse request = BodyUse::Ignore;
    BodyUse response = BodyUse::Ignore;
  };
  static FilterVerdict feed(ExchangeFilter& filter, Piece piece, ByteView in, bool last,
                            Bytes& out);
  FilterVerdict pass(std::span<Stage* const> order, Piece piece, BodyUse Stage::* use, ByteView in,
                     bool last, Bytes& out);

  std::vector<Stage> stages_;
};

}
