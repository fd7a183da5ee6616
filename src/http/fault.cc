#include "mvm/http/parser.h"

namespace mvm::http {

std::string_view fault_text(Fault fault) noexcept {
  switch (fault) {
    case Fault::None:
      return "no fault";
    case Fault::HeadTooLarge:
      return "the header section is too large";
    case Fault::TooManyHeaders:
      return "there are too many header fields";
    case Fault::BareLineEnd:
      return "a line ends in a bare CR or LF";
    case Fault::BadStartLine:
      return "the first line is malformed";
    case Fault::BadMethod:
      return "the method is malformed";
    case Fault::BadTarget:
      return "the request target is malformed";
    case Fault::TargetTooLong:
      return "the request target is too long";
    case Fault::BadVersion:
      return "the protocol version is not HTTP/1.0 or HTTP/1.1";
    case Fault::BadStatus:
      return "the status code is malformed";
    case Fault::BadHeaderName:
      return "a header field name is malformed";
    case Fault::BadHeaderValue:
      return "a header field value has control characters";
    case Fault::FoldedHeader:
      return "a header field is folded over lines";
    case Fault::BadHost:
      return "the Host field is missing, repeated or malformed";
    case Fault::HostMismatch:
      return "the Host field and the request target name different hosts";
    case Fault::BadLength:
      return "the Content-Length is malformed";
    case Fault::RepeatedLength:
      return "the Content-Length is repeated";
    case Fault::LengthAndCoding:
      return "both Content-Length and Transfer-Encoding are present";
    case Fault::BadCoding:
      return "the transfer coding is not supported";
    case Fault::BadChunk:
      return "a chunk of the body is malformed";
    case Fault::UnexpectedBody:
      return "the method does not allow a body";
    case Fault::BodyTooLarge:
      return "the body is too large";
    case Fault::Truncated:
      return "the message ends too early";
  }
  return "";
}

unsigned fault_status(Fault fault) noexcept {
  switch (fault) {
    case Fault::HeadTooLarge:
    case Fault::TooManyHeaders:
      return 431;
    case Fault::BodyTooLarge:
      return 413;
    case Fault::TargetTooLong:
      return 414;
    case Fault::BadVersion:
      return 505;
    case Fault::BadCoding:
      return 501;
    default:
      return 400;
  }
}

}
