"""Evaluates trees and answers whole queries."""
