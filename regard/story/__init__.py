"""The story of attention in one page: text, figures that compute what they show, and the calls that do it for real."""
