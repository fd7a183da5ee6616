#pragma once
// The filters of one exchange, as one: requests pass them first to last, responses last to first.

#include <span>

#include "mvm/egress/filter.h"

#include "commit.h"

namespace mvm::egress {

// Of a request that was admitted, and whose admission could not be recorded.
FilterRefusal not_recorded();

class Filters {
 public:
  Filters() = default;
  // Before what these let pass it is committed to; who sends it says when it has passed.
  Filters(std::span<const std::shared_ptr<FilterSource>> sources, const Exchange& exchange,
          Commit& commit);
  ~Filters() { end(false); }
  Filters(const Filters&) = delete;
  Filters& operator=(const Filters&) = delete;
  Filters(Filters&& other) noexcept { *this = std::move(other); }
  Filters& operator=(Filters&& other) noexcept;

  // What the body's bytes have to go through; Ignore: nobody wants them.
  BodyUse request_use() const noexcept;
  BodyUse response_use() const noexcept;

  // Whose body is collected before any of it leaves, or commit() is to be called.
  FilterVerdict request_head(http::RequestHead& head);
  void collect() noexcept { collecting_ = true; }
  FilterVerdict commit() const;
  // Once it has.
  void request_left() noexcept;
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
    // What it is still to watch.
    struct Passed {
      Bytes bytes;
      bool last = false;
    };
    Passed request_passed;
    Passed response_passed;
  };
  static FilterVerdict feed(ExchangeFilter& filter, Piece piece, ByteView in, bool last,
                            Bytes& out);
  template <typename Order>
  static FilterVerdict pass(Order&& order, Piece piece, BodyUse Stage::* use,
                            Stage::Passed Stage::* passed, ByteView in, bool last, Bytes& out);

  static void keep(ExchangeFilter& filter, Piece piece, Stage::Passed& passed, ByteView in,
                   bool last);
  static void show(ExchangeFilter& filter, Piece piece, Stage::Passed& passed);
  void show_request();

  std::vector<Stage> stages_;
  Commit* commit_ = nullptr;
  bool collecting_ = false;
  bool left_ = false;
};

}
