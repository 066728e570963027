#include "tail_probability.h"
#include <assert.h>
#include <math.h>
#include <stdbool.h>

//  Skewness below which the gamma law and the normal one differ by less than a part in a hundred, at ten
//  standard deviations.
#define TAILS_SKEWNESS_LEAST 1e-4
//  What a sum's or a fraction's next step must change to be worth another.
#define TAILS_STEP_LEAST 1e-15

double
tail_probability_normal (double z)
{
    return erfc (z / sqrt (2)) / 2;
}

//  --------------------------------------------------------------------------
//  The gamma law

//  x^shape e^-x / Gamma (shape), the factor that both expansions share.
static double
s_gamma_front (double shape, double x)
{
    return exp (shape * log (x) - x - lgamma (shape));
}

//  The lower tail's power series: quick for x below shape + 1.
static double
s_gamma_lower (double shape, double x)
{
    double term = 1 / shape, sum = term;
    for (double next = shape + 1; term > sum * TAILS_STEP_LEAST; next++) {
        term *= x / next;
        sum += term;
    }
    return sum * s_gamma_front (shape, x);
}

//  The upper tail's continued fraction (Lentz's way): quick for x above shape + 1.
static double
s_gamma_upper (double shape, double x)
{
    double b = x + 1 - shape, c = 1e300, d = 1 / b, fraction = d;
    for (double step = 1;; step++) {
        double a = -step * (step - shape);
        b += 2;
        d = 1 / (a * d + b);
        c = b + a / c;
        fraction *= c * d;
        if (fabs (c * d - 1) < TAILS_STEP_LEAST * 10)
            return fraction * s_gamma_front (shape, x);
    }
}

double
tail_probability_skewed (double z, double skewness)
{
    if (skewness < TAILS_SKEWNESS_LEAST)
        return tail_probability_normal (z);
    double shape = 4 / (skewness * skewness), x = shape + z * sqrt (shape);
    if (x <= 0)
        return 1;
    double tail = x < shape + 1? 1 - s_gamma_lower (shape, x): s_gamma_upper (shape, x);
    return tail < 0? 0: tail;
}

//  --------------------------------------------------------------------------
//  Student's law

//  The incomplete beta function's continued fraction (Lentz's way): quick for x below (a + 1) / (a + b + 2).
static double
s_beta_fraction (double a, double b, double x)
{
    double c = 1, d = 1 / (1 - (a + b) * x / (a + 1)), fraction = d;
    for (double step = 1;; step++) {
        double even = step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step));
        double odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1));
        d = 1 / (1 + even * d);
        c = 1 + even / c;
        fraction *= c * d;
        d = 1 / (1 + odd * d);
        c = 1 + odd / c;
        fraction *= c * d;
        if (fabs (c * d - 1) < TAILS_STEP_LEAST * 10)
            return fraction;
    }
}

//  I (x; a, b) where x is on the quick side.
static double
s_beta (double a, double b, double x, double rest)
{
    if (x <= 0)
        return 0;
    double front = exp (lgamma (a + b) - lgamma (a) - lgamma (b) + a * log (x) + b * log (rest)) / a;
    return front * s_beta_fraction (a, b, x);
}

double
tail_probability_student (double t, double degrees)
{
    assert (degrees > 0);
    double a = degrees / 2, b = 0.5, square = t * t, x = degrees / (degrees + square),
        rest = square / (degrees + square);
    if (x < (a + 1) / (a + b + 2))
        return s_beta (a, b, x, rest);
    return 1 - s_beta (b, a, rest, x);
}

//  --------------------------------------------------------------------------
//  Counts

double
tail_probability_places (double off, double variance, double step)
{
    //  Half a step nearer: what is seen counts as well.
    double nearer = fabs (off) - step / 2;
    return nearer <= 0? 1: 2 * tail_probability_normal (nearer / sqrt (variance));
}

static double
s_log_choose (double n, double k)
{
    return lgamma (n + 1) - lgamma (k + 1) - lgamma (n - k + 1);
}

double
tail_probability_binomial (uint64_t trials, double probability, uint64_t hits)
{
    assert (hits <= trials);
    assert (probability >= 0 && probability <= 1);
    double n = (double) trials, k = (double) hits;
    if (k <= n * probability)
        return 1;
    if (probability <= 0)
        return 0;
    double term = exp (s_log_choose (n, k) + k * log (probability) + (n - k) * log1p (-probability));
    double sum = term;
    //  Above the mean each term is smaller than the one before.
    for (; k < n && term > sum * TAILS_STEP_LEAST; k++) {
        term *= (n - k) / (k + 1) * probability / (1 - probability);
        sum += term;
    }
    return sum < 1? sum: 1;
}

double
tail_probability_hypergeometric (uint64_t population, uint64_t marked, uint64_t drawn, uint64_t hits)
{
    assert (marked <= population && drawn <= population);
    assert (hits <= marked && hits <= drawn);
    double n = (double) population, m = (double) marked, d = (double) drawn, k = (double) hits;
    if (k * n <= m * d)
        return 1;
    double term = exp (s_log_choose (m, k) + s_log_choose (n - m, d - k) - s_log_choose (n, d)), sum = term;
    for (; k < m && k < d && term > sum * TAILS_STEP_LEAST; k++) {
        term *= (m - k) / (k + 1) * (d - k) / (n - m - d + k + 1);
        sum += term;
    }
    return sum < 1? sum: 1;
}
